"""Runs a check in a copy of a workspace."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.checks.check import Check, CheckResult
from agentcli.app.copies import ScratchCopy, moved
from agentcli.app.sandbox import TMP_FOLDER
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox


def checked_copy(
    builder: AgentBuilder, copy: ScratchCopy, command: str, limit_s: float
) -> CheckResult:
    """Run `command` in `copy`, contained like the commands of a session there. If the sandbox can
    do that, the command sees the copy at the path of the original, so that packages installed by
    path (`pip install -e`) and scripts that contain it use the copy. Raises what `Check.run`
    raises."""
    (copy.own / TMP_FOLDER).mkdir(mode=0o700, exist_ok=True)
    containment = builder.containment(copy.own, copy.workspace)
    sandbox, folder = containment.sandbox, copy.workspace
    scope = sandbox.scope
    sandbox = replace(sandbox, scope=replace(scope, readable=(*scope.readable, *copy.lent)))
    if sandbox.layer == BUBBLEWRAP and copy.original.is_dir():
        sandbox, folder = _in_place(sandbox, copy)
    return Check(command, sandbox, containment.environment, limit_s).run(folder, copy.own)


def _in_place(sandbox: Sandbox, copy: ScratchCopy) -> tuple[Sandbox, Path]:
    """Return a sandbox that shows the copy at the path of the original, and the workspace in it."""
    for path in copy.lent:
        # It is shown at the original's path, so the link would lead to itself.
        link = moved(path, copy.original, copy.root)
        with suppress(OSError):
            if link.is_symlink():
                link.unlink()
    scope = sandbox.scope
    shown = replace(scope, mounts={**scope.mounts, copy.original: copy.root})
    return replace(sandbox, scope=shown), moved(copy.workspace, copy.root, copy.original)
