"""Going back: undo steps, return to an event, go on from one in a copy.

Each function records what it did in the session it is given; before files change, the workspace
as it is now is kept too, so that going back can itself be taken back.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agentcli import __version__
from agentcli.errors import UsageError
from agentcli.events import Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.events.observations import CheckpointObservation, SessionStartedObservation
from agentcli.runtime.checkpointer import checkpoints_of
from agentcli.runtime.checkpoints import Change, Checkpoints
from agentcli.sessions.copying import copy_events
from agentcli.sessions.history import StepTrees, cut_at, steps_with_trees, tree_at, trees
from agentcli.sessions.lock import SessionLock
from agentcli.sessions.session import Session, read_session

_MOST_NAMED = 20


@dataclass(frozen=True)
class WentBack:
    """Where the session is now: `to_event`, the files changed on the way, and the event under
    which the workspace as it was before is kept."""

    to_event: int
    steps: int
    changes: tuple[Change, ...]
    kept_at: int | None


@dataclass(frozen=True)
class Forked:
    session_id: str
    at_event: int
    workspace: Path
    notes: tuple[str, ...]


def undo(session: Session, count: int, *, force: bool = False) -> WentBack:
    """Take back what the newest `count` steps that changed files did to them.

    Other files stay as they are. Raises UsageError when there are not so many such steps, or when
    somebody else changed one of these files since (unless `force`).
    """
    kept = checkpoints_of(session.folder, session.state.workspace)
    steps = steps_with_trees(session.events)
    now = kept.take().tree if steps else ""
    steps = [step for step in steps if kept.changes(step.before, step.after or now)]
    if not steps:
        raise UsageError(f"session {session.id} has changed no files that could be undone")
    if count > len(steps):
        raise UsageError(f"only {len(steps)} steps of session {session.id} changed files")
    undone = steps[-count:]
    target = undone[0].before
    mine = {
        change.path for step in undone for change in kept.changes(step.before, step.after or now)
    }
    if not force:
        _refuse_lost_work(kept, undone, now, target, mine)
    kept_at = session.emit(CheckpointObservation(tree=now, moment="before_rewind")).id
    changes = kept.restore(target, mine)
    session.emit(
        RewindAction(
            to_event=undone[0].event_id - 1,
            conversation=False,
            tree=kept.take().tree,
            source=Source.USER,
        )
    )
    _tell_model(session, f"The user undid your last {_steps(count)} that changed files.", changes)
    return WentBack(undone[0].event_id - 1, count, tuple(changes), kept_at)


def rewind(session: Session, event_id: int, *, files: bool, conversation: bool) -> WentBack:
    """Bring `files`, the `conversation` or both back to just after event `event_id`, or the last
    event before it where no step is cut in two.

    Raises UsageError when there is no such place, SessionError when the files of then were not
    kept; then nothing is changed.
    """
    cut = cut_at(session.events, event_id)
    changes: list[Change] = []
    kept_at = tree = None
    if files:
        wanted = tree_at(session.events, cut)
        kept = checkpoints_of(session.folder, session.state.workspace)
        now = kept.take().tree
        kept_at = session.emit(CheckpointObservation(tree=now, moment="before_rewind")).id
        tree = wanted or now
        changes = kept.restore(tree)
    session.emit(
        RewindAction(to_event=cut, conversation=conversation, tree=tree, source=Source.USER)
    )
    if files and not conversation:
        _tell_model(session, f"The user brought the files back to event {cut}.", changes)
    return WentBack(cut, 0, tuple(changes), kept_at)


def newest_changes(folder: Path, step: int | None) -> tuple[Checkpoints, tuple[str, str] | None]:
    """The snapshots before and after all that the session in `folder` did to files, or, with
    `step`, before and after the `step`-th last of its steps that changed some; None without any.

    What a process at work in it has done since its last checkpoint is left out.
    """
    record = read_session(folder)
    kept = checkpoints_of(folder, record.state.workspace)
    steps = steps_with_trees(record.events)
    spans = [(s.before, s.after or _as_now(folder, kept) or s.before) for s in steps]
    if step is None:
        return kept, (spans[0][0], spans[-1][1]) if spans else None
    changing = [span for span in spans if kept.changes(*span)]
    return kept, changing[-step] if step <= len(changing) else None


def _as_now(folder: Path, kept: Checkpoints) -> str | None:
    """A snapshot of the workspace as it is; None while somebody else makes them."""
    try:
        lock = SessionLock(folder / "session.lock")
    except UsageError:
        return None
    try:
        return kept.take().tree
    finally:
        lock.release()


def fork(original: Path, copy: Path, event_id: int | None, workspace: Path) -> Forked:
    """A new session in `copy` that has the events of the one in `original` up to `event_id` (its
    end, when None) and, in the new folder `workspace`, the files as they were then.

    The original is only read, so it may be in use. Raises UsageError and SessionError like
    `rewind`, UsageError when `workspace` is there and not empty.
    """
    record = read_session(original)
    cut = cut_at(record.events, len(record.events) - 1 if event_id is None else event_id)
    if workspace.exists() and (not workspace.is_dir() or any(workspace.iterdir())):
        raise UsageError(f"{workspace} is there already", hint="name another with --dir")
    tree = tree_at(record.events, cut)
    copy_events(original, copy, cut)
    kept = checkpoints_of(original, record.state.workspace)
    known = trees(record.events[: cut + 1])
    if known or tree:
        kept.copy_to(copy / "checkpoints", [*known, *([tree] if tree else [])])
    mine = checkpoints_of(copy, record.state.workspace)
    notes = mine.write_out(tree or mine.take().tree, workspace)
    with Session.open(copy) as session:
        _begin(session, original.name, record.state.model, cut, workspace)
        _tell_model(
            session,
            f"You work in a copy of session {original.name} from here on. Its workspace is now "
            f"{workspace}, a copy of {record.state.workspace} as it was at this point.",
        )
    return Forked(copy.name, cut, workspace, tuple(notes))


def _begin(session: Session, original: str, model: str, cut: int, workspace: Path) -> None:
    session.emit(
        SessionStartedObservation(
            version=__version__,
            session_id=session.id,
            model=model,
            sandbox="none",
            workspace=str(workspace),
            pid=os.getpid(),
            host=socket.gethostname(),
            forked_from=original,
            forked_at=cut,
        )
    )


def _refuse_lost_work(
    kept: Checkpoints, undone: list[StepTrees], now: str, target: str, mine: Collection[str]
) -> None:
    """Raises UsageError if undoing would lose what somebody else did to the same files."""
    ends = [*(step.before for step in undone[1:]), now]
    foreign = {
        change.path
        for step, later in zip(undone, ends, strict=True)
        for change in kept.changes(step.after or now, later)
    }
    differ = {change.path for change in kept.changes(now, target)}
    lost = sorted(foreign & differ & set(mine))
    if lost:
        raise UsageError(
            f"changed since by somebody else: {_named(lost)}",
            hint="undo with --force to lose these changes",
        )


def _tell_model(session: Session, what: str, changes: Collection[Change] = ()) -> None:
    """Said to the model before it goes on, as what it knows of the files is no longer true."""
    files = _named([change.path for change in changes])
    where = f" These are as they were before: {files}." if files else ""
    session.emit(MessageAction(content=f"[{what}{where}]", source=Source.ENVIRONMENT))


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(paths[:_MOST_NAMED]) + more


def _steps(count: int) -> str:
    return "step" if count == 1 else f"{count} steps"
