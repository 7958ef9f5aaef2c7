"""Workspaces with a sandbox around them, for tests."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.files.access_scope import AccessScope
from agentcli.files.output_folder import OutputFolder
from agentcli.sandbox.environment import command_environment
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.selection import Sandbox, choose_sandbox
from agentcli.shell.command_result import CommandResult
from agentcli.shell.shell import Shell

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
) -> Place:
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
