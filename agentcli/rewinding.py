"""Going back: undo steps, return to an event, go on from one in a copy.

Each function records what it did in the session it is given; before files change, the workspace
as it is now is kept too, so that going back can itself be taken back.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcli import __version__
from agentcli.errors import SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.events.live import newest_first
from agentcli.events.observations import CheckpointObservation, SessionStartedObservation
from agentcli.runtime.checkpointer import checkpoints_of
from agentcli.runtime.checkpoints import Change, CheckpointError, Checkpoints
from agentcli.runtime.names import display_path
from agentcli.runtime.snapshot_objects import EMPTY_TREE
from agentcli.sessions.copying import copy_events
from agentcli.sessions.finder import new_folder
from agentcli.sessions.history import (
    StepTrees,
    cut_at,
    moved_since,
    steps_with_trees,
    tree_at,
    trees,
)
from agentcli.sessions.lock import SessionLock
from agentcli.sessions.retention import staging
from agentcli.sessions.session import Session, SessionRecord, read_session

_LONGEST_NAME = 200
_MOST_NAMED = 20


@dataclass(frozen=True)
class WentBack:
    """Where the session is now: `to_event`, the files changed on the way, the event under which
    the workspace as it was before is kept, and what is in no snapshot, so as it was."""

    to_event: int
    steps: int
    changes: tuple[Change, ...]
    kept_at: int | None
    left_out: tuple[str, ...] = ()


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
    if steps:
        _require_workspace(session)
    now = kept.take().tree if steps else ""
    steps = [step for step in steps if kept.changes(step.before, step.after or now)]
    if not steps:
        raise UsageError(
            f"session {session.id} has changed no files that could be undone",
            hint="another: agent undo --session SESSION, one of: agent sessions list",
        )
    if count > len(steps):
        raise UsageError(f"only {_steps(len(steps))} of session {session.id} changed files")
    undone = steps[-count:]
    target = undone[0].before
    mine = {path for step in undone for path in kept.paths(step.before, step.after or now)}
    if not force:
        _refuse_lost_work(kept, undone, now, target, mine)
    with _going_back(session, kept, now) as went:
        went.changes = kept.restore(target, mine)
        went.tree = kept.take().tree
    to_event = undone[0].event_id - 1
    session.emit(
        RewindAction(to_event=to_event, conversation=False, tree=went.tree, source=Source.USER)
    )
    which = "last step" if count == 1 else f"last {count} steps"
    _tell_model(session, f"The user undid your {which} that changed files.", went.changes)
    return WentBack(to_event, count, tuple(went.changes), went.kept_at, _left_out(session))


def rewind(session: Session, event_id: int, *, files: bool, conversation: bool) -> WentBack:
    """Bring `files`, the `conversation` or both back to just after event `event_id`, or the last
    event before it where no step is cut in two.

    Raises UsageError when there is no such place, SessionError when the files of then were not
    kept; then nothing is changed.
    """
    cut = cut_at(session.events, event_id)
    if not files:
        session.emit(RewindAction(to_event=cut, source=Source.USER))
        _tell_model(
            session,
            "The user went back to this point of the conversation. The files are as later work "
            "left them: look before you rely on what is said above.",
        )
        return WentBack(cut, 0, (), len(session.events) - 3)
    wanted = _tree_to_restore(session, cut)
    _require_workspace(session)
    kept = checkpoints_of(session.folder, session.state.workspace)
    now = kept.take().tree
    with _going_back(session, kept, now) as went:
        went.changes = kept.restore(wanted or now)
    session.emit(
        RewindAction(
            to_event=cut, conversation=conversation, tree=wanted or now, source=Source.USER
        )
    )
    if not conversation:
        _tell_model(session, "The user brought files back to an earlier state.", went.changes)
    return WentBack(cut, 0, tuple(went.changes), went.kept_at, _left_out(session))


@dataclass
class _Way:
    kept_at: int
    changes: list[Change]
    tree: str


@contextmanager
def _going_back(session: Session, kept: Checkpoints, now: str) -> Iterator[_Way]:
    """Around a restore: what is there is kept before, and a failure in the middle is told."""
    kept_at = session.emit(CheckpointObservation(tree=now, moment="before_rewind")).id
    try:
        yield _Way(kept_at, [], now)
    except CheckpointError:
        _tell_model(
            session,
            "The user began to bring files back to an earlier state; that stopped half-way. Look "
            "before you rely on any file.",
        )
        raise


def _tree_to_restore(session: Session, cut: int) -> str | None:
    """Raises SessionError when there is none for this workspace."""
    hint = "the conversation alone can go back: --conversation"
    if then := moved_since(session.events, cut):
        raise SessionError(
            f"at event {cut} the session worked in {then}, now it works elsewhere", hint=hint
        )
    try:
        return tree_at(session.events, cut)
    except SessionError as error:
        error.hint = hint
        raise


def _require_workspace(session: Session) -> None:
    """Raises SessionError when the workspace was moved or deleted by somebody else."""
    if Path(session.state.workspace).is_dir():
        return
    kept = (e for e in newest_first(session.events) if isinstance(e, CheckpointObservation))
    last = next(kept, None)
    if last is None or last.tree != EMPTY_TREE.hex():
        raise SessionError(
            f"session {session.id} worked in {session.state.workspace}, which is no longer there",
            hint=f"its files as they were, elsewhere: agent fork {session.id} --dir DIR",
        )


def _left_out(session: Session) -> tuple[str, ...]:
    named = (e.left_out for e in session.events if isinstance(e, CheckpointObservation))
    return tuple(dict.fromkeys(what for left_out in named for what in left_out))


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
    except (UsageError, SessionError):
        return None
    try:
        return kept.take().tree
    finally:
        lock.release()


def fork(home: Path, original: Path, event_id: int | None, folder: Path | None) -> Forked:
    """A new session that has the events of the one in `original` up to `event_id` (its end, when
    None) and, in a new `folder` (beside its workspace, when None), the files as they were then.

    The original is only read, so it may be in use. Raises UsageError when there is no such event
    or the folder is there and not empty, SessionError when the files of then were not kept.
    """
    record = read_session(original)
    cut = cut_at(record.events, len(record.events) - 1 if event_id is None else event_id)
    tree = tree_at(record.events, cut)
    copy_id = new_folder(home).name
    before = Path(moved_since(record.events, cut) or record.state.workspace)
    if folder is None and not before.is_absolute():
        raise UsageError(f"session {original.name} worked in {before}", hint="add --dir DIR")
    workspace = folder or before.with_name(f"{before.name}-fork-{copy_id[-4:]}")
    is_new = not os.path.lexists(workspace)
    try:
        if not is_new and any(workspace.iterdir()):
            raise UsageError(f"{workspace} is there already", hint="name another with --dir")
    except OSError as error:
        raise UsageError(f"{workspace} can't be used: {error.strerror}") from error
    try:
        with staging(home, copy_id) as staged:
            known = [*trees(record.events[: cut + 1]), *([tree] if tree else [])]
            if known:
                checkpoints_of(original, str(before)).copy_to(staged / "checkpoints", known)
            kept = checkpoints_of(staged, str(before))
            notes = kept.write_out(tree or kept.take().tree, workspace)
            copy_events(original, staged, cut, _beginning(record, copy_id, cut, before, workspace))
    except BaseException:
        if is_new:
            shutil.rmtree(workspace, ignore_errors=True)
        raise
    return Forked(copy_id, cut, workspace, tuple(notes))


def _beginning(
    record: SessionRecord, copy_id: str, cut: int, before: Path, workspace: Path
) -> list[Event]:
    """What a copy begins with: who it is, and a word to the model."""
    original = record.folder.name
    return [
        SessionStartedObservation(
            version=__version__,
            session_id=copy_id,
            model=record.state.model,
            sandbox="none",
            workspace=str(workspace),
            pid=os.getpid(),
            host=socket.gethostname(),
            forked_from=original,
            forked_at=cut,
        ),
        _to_model(
            f"You work in a copy of session {original} from here on. Its workspace is now "
            f"{_quoted(str(workspace))}, a copy of {_quoted(str(before))} as it was at "
            "this point."
        ),
    ]


def _refuse_lost_work(
    kept: Checkpoints, undone: list[StepTrees], now: str, target: str, mine: Collection[str]
) -> None:
    """Raises UsageError if undoing would lose what somebody else did to the same files."""
    ends = [*(step.before for step in undone[1:]), now]
    foreign = {
        path
        for step, later in zip(undone, ends, strict=True)
        for path in kept.paths(step.after or now, later)
    }
    # Folders whose mode alone is another are left by an undo that was cut off.
    differ = kept.paths(now, target, folder_modes=False)
    lost = sorted(foreign & differ & set(mine))
    if lost:
        raise UsageError(
            f"changed since by somebody else: {_few([display_path(path) for path in lost])}",
            hint="undo with --force to lose these changes",
        )


def _tell_model(session: Session, what: str, changes: Collection[Change] = ()) -> None:
    """Said to the model before it goes on, as what it knows of the files is no longer true."""
    now = {"added": "there again", "deleted": "gone again", "modified": "as before"}
    told = [what]
    for kind, state in now.items():
        paths = [c.path for c in changes if ("modified" if c.kind == "mode" else c.kind) == kind]
        if paths:
            told.append(f"{state.capitalize()}: {_few([_quoted(path) for path in paths])}.")
    session.emit(_to_model(" ".join(told)))


def _to_model(text: str) -> MessageAction:
    return MessageAction(content=f"[{text}]", source=Source.ENVIRONMENT)


def _quoted(path: str) -> str:
    """So that a name can't be taken for words of the user."""
    shown = display_path(path)
    return json.dumps(shown[:_LONGEST_NAME], ensure_ascii=False).replace("]", "\\u005d")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
