"""What a session changed in its workspace."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.errors import SessionError, UsageError
from agentcli.events import Event
from agentcli.sessions.history import steps_with_trees
from agentcli.sessions.library import store_of
from agentcli.sessions.search.session_totals import SessionTotals
from agentcli.sessions.session import read_session
from agentcli.workspace.names import is_generated


def newest_changes(folder: Path, step: int | None) -> tuple[Checkpoints, tuple[str, str] | None]:
    """Return the snapshots before and after everything that the session in `folder` did to files
    or, with `step`, before and after the `step`-th last of its steps that changed some; None
    without any.

    What a process at work in it has done since its last checkpoint is not included.
    """
    record = read_session(folder)
    kept = checkpoints_of(folder, record.state.workspace)
    steps = steps_with_trees(record.events)
    now = files_now(folder, kept, record.events)
    pairs = [(s.before, s.after or now or s.before) for s in steps]
    if step is None:
        return kept, (pairs[0][0], pairs[-1][1]) if pairs else None
    changing = (pair for pair in reversed(pairs) if kept.changes(*pair))
    return kept, next(islice(changing, step - 1, None), None)


def files_now(folder: Path, kept: Checkpoints, events: Sequence[Event]) -> str | None:
    """Take a snapshot of the workspace if there is none after the newest step. Return None if
    somebody else is at work in the session, or if no snapshot is needed."""
    steps = steps_with_trees(events)
    if not steps or steps[-1].after is not None:
        return None
    try:
        lock = store_of(folder).lock()
    except (UsageError, SessionError):
        return None
    with lock:
        return kept.take().tree


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
