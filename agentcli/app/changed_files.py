"""Which files a piece of work in a session changed."""

from __future__ import annotations

from pathlib import Path

from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.errors import SessionError
from agentcli.files.names import is_generated
from agentcli.sessions.search.session_totals import SessionTotals


def files_changed(folder: Path, workspace: str, done: SessionTotals) -> tuple[str, ...]:
    """Return the files changed by any means, if the workspace of the session in `folder` was kept
    before and after; otherwise those changed by the file tools."""
    if done.trees is None:
        return done.files_changed
    kept = checkpoints_of(folder, workspace)
    try:
        changed = (c.path for c in kept.changes(*done.trees) if not c.git_description)
        return tuple(path for path in changed if not is_generated(path))
    except SessionError:
        return done.files_changed
