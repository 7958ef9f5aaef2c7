"""Sandboxes a program that is started by another one, which accepts only the path of a program."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.sandbox.bubblewrap import EMPTY_FDS, SECCOMP_FD, bubblewrap_options
from agentcli.sandbox.seccomp import AF_INET, AF_INET6, AF_UNIX
from agentcli.sandbox.selection import Sandbox
from agentcli.workspace.private import write_private

_LARGEST_FILE_KB = 1_000_000


def start_script(
    sandbox: Sandbox, command: Sequence[str], env: Mapping[str, str], folder: Path, bash: str
) -> Path:
    """Write to `folder` a program that starts `command`, plus its own arguments, in the bubblewrap
    `sandbox` with a network of its own and this environment. `bash` runs it; the descriptors that
    it inherits stay open. Raises OSError."""
    prefix, descriptors = bubblewrap_options(
        sandbox.program,
        sandbox.scope,
        network=False,
        families={AF_UNIX, AF_INET, AF_INET6},
        cwd=str(sandbox.scope.workspace),
    )
    seccomp = write_private(folder / "seccomp", descriptors.seccomp)
    opened = [f"{SECCOMP_FD}<{shlex.quote(str(seccomp))}"]
    opened += [f"{EMPTY_FDS + number}</dev/null" for number in range(descriptors.empty_files)]
    clean = ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
    lines = [
        f"#!{bash} -p",
        "ulimit -c 0",
        f"ulimit -f {_LARGEST_FILE_KB}",
        f"exec {' '.join(opened)}",
        "cd /",
        f'exec {shlex.join([*clean, *prefix, *command])} "$@"',
    ]
    path = write_private(folder / "start", "\n".join([*lines, ""]).encode())
    path.chmod(0o700)
    return path
