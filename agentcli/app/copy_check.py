"""Runs a check in a temporary copy of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.check import Check, CheckResult
from agentcli.app.containment import TMP_FOLDER, with_readable
from agentcli.app.fork import lent_by, moved, scratch_place
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox
from agentcli.sessions.staging import scratch


@dataclass(frozen=True)
class CopyCheck:
    """A check, the bash `command`, of files in a copy. `redact` masks secrets in its output."""

    builder: AgentBuilder
    command: str
    limit_s: float
    redact: Callable[[str], str]

    def run(
        self,
        store: Checkpoints,
        workspace: Path,
        tree: str,
        idle: Collection[str] | None,
        original: Path | None = None,
        lent: tuple[Path, ...] | None = None,
    ) -> tuple[CheckResult, list[str]]:
        """Check the files of a snapshot in `store`, which is of `workspace`. Return the result, and
        notes for people on what the copy lacks. The store is only read, so it may be in use; `idle`
        are snapshots taken while no command ran (see `restore`). If the workspace is a copy itself,
        `original` is what it was copied from, with links to the parts `lent`. Raises SessionError,
        and what `Check.run` raises."""
        with scratch(self.builder.home, scratch_place(self.builder.environ)) as made:
            root = made.files / store.root.name
            notes = store.write_out(tree, root, idle=idle, lend=True)
            copy = _Copy(
                moved(workspace, store.root, root),
                root,
                original or store.root,
                lent_by(store, tree) if lent is None else lent,
            )
            result = self._run_in(copy, made.own)
        return replace(result, tail=self.redact(result.tail)), notes

    def _run_in(self, copy: _Copy, own: Path) -> CheckResult:
        """Run the check, contained like the commands of a session. If the sandbox can do that, the
        command sees the copy at the path of the original, so that packages installed by path (`pip
        install -e`) and scripts that contain it use the copy."""
        (own / TMP_FOLDER).mkdir(mode=0o700, exist_ok=True)
        containment = self.builder.containment(own, copy.workspace)
        sandbox, folder = with_readable(containment.sandbox, copy.lent), copy.workspace
        if sandbox.layer == BUBBLEWRAP and copy.original.is_dir():
            sandbox, folder = copy.in_place(sandbox)
        check = Check(self.command, sandbox, containment.environment, self.limit_s)
        return check.run(folder, own)


@dataclass(frozen=True)
class _Copy:
    """`workspace` is the session's workspace in the copy, `root` that of its repository, and
    `original` what `root` is a copy of; it may no longer exist."""

    workspace: Path
    root: Path
    original: Path
    lent: tuple[Path, ...]

    def in_place(self, sandbox: Sandbox) -> tuple[Sandbox, Path]:
        """Return a sandbox that shows the copy at the path of the original, and the workspace in
        it."""
        for path in self.lent:
            # It is shown at the original's path, so the link would lead to itself.
            link = moved(path, self.original, self.root)
            with suppress(OSError):
                if link.is_symlink():
                    link.unlink()
        scope = sandbox.scope
        shown = replace(scope, mounts={**scope.mounts, self.original: self.root})
        return replace(sandbox, scope=shown), moved(self.workspace, self.root, self.original)
