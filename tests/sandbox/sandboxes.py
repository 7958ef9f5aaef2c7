"""Workspaces with a sandbox around them, for tests."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.sandbox.environment import command_environment
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.selection import Sandbox, choose_sandbox
from agentcli.sandbox.system_calls import _system_calls, seccomp_installer
from agentcli.shell.interpreter import CommandResult
from agentcli.shell.shell import Shell
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.scope import AccessScope

_ANYWHERE = AccessScope(Path("/"), Path("/"), (), mounts={Path("/tmp"): Path("/tmp")})
GIT = (
    "git -c user.name=t -c user.email=t@t -c init.defaultBranch=main -c protocol.file.allow=always"
)


def works(layer: str) -> bool:
    try:
        choose_sandbox(layer, _ANYWHERE, network=False, cache=Path("/nonexistent"))
    except ConfigError:
        return False
    return True


def without_call(name: str, error: int) -> Callable[[], None]:
    """Makes the kernel answer `error` to this system call, for whoever calls this and its
    children."""
    calls: dict[str, int] = {"landlock_create_ruleset": 444}
    for kind in _system_calls(os.uname().machine).values():
        calls |= kind
    load, if_equal, answer, allow, errno_of = 0x20, 0x15, 0x06, 0x7FFF0000, 0x50000
    code = [
        (load, 0, 0, 0),
        (if_equal, 0, 1, calls[name]),
        (answer, 0, 0, errno_of | error),
        (answer, 0, 0, allow),
    ]
    return seccomp_installer(b"".join(struct.pack("=HBBI", *one) for one in code))


LAYERS = [layer for layer in ("bubblewrap", "landlock") if works(layer)]
"""That this machine has."""


@dataclass
class Place:
    """`state` is the agent's, with a session in it; `home` is the person's."""

    base: Path
    workspace: Path
    home: Path
    scope: AccessScope
    sandbox: Sandbox
    shell: Shell

    def run(self, command: str, **options: float) -> CommandResult:
        return self.shell.run(command, **options)

    def said(self, command: str) -> str:
        return self.shell.run(command, timeout=60).output.strip()


def make_place(
    base: Path,
    layer: str,
    *,
    workspace: Path | None = None,
    network: bool = False,
    environ: dict[str, str] | None = None,
    namespaces: bool = True,
) -> Place:
    """`namespaces`: if the layer Landlock can have some here, it does."""
    home, state = base / "home", base / "state"
    workspace = workspace or base / "work"
    session = state / "session"
    for folder in (home, workspace, session / "outputs", session / "tmp", session / "shell"):
        folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "HOME": str(home), **(environ or {})}
    outputs = session / "outputs"
    scope = find_access_scope(
        workspace, environ, agent_files=[state], readable=[outputs], tmp=session / "tmp"
    )
    sandbox = choose_sandbox(layer, scope, network=network, cache=state)
    sandbox = replace(sandbox, namespaces=sandbox.namespaces and namespaces)
    shell = Shell(
        cwd=str(workspace),
        env=command_environment(environ, (), "s", contained=sandbox.contains),
        full_env=command_environment(environ, (), "s"),
        scratch=session / "shell",
        outputs=OutputFolder(outputs),
        sandbox=sandbox,
    )
    return Place(base, workspace, home, scope, sandbox, shell)


def git(folder: Path, *arguments: str) -> str:
    command = [*GIT.split(), "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "--template=")
    (folder / "first").write_text("1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder
