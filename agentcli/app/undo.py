"""What a session changed in its workspace, and the way back: undo steps, or return to an event.

Going back records what it did in the session. Before files change, the current state of the
workspace is kept too, so that going back can itself be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Change, Checkpoints, Restored
from agentcli.errors import SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.events.conversation import newest
from agentcli.events.observations import CheckpointObservation, RestoreStartedObservation
from agentcli.sessions.history import (
    SessionTotals,
    StepTrees,
    cut_at,
    former_workspace,
    idle_snapshots,
    partial_restore_message,
    snapshot_at,
    step_snapshots,
    steps_with_trees,
)
from agentcli.sessions.library import store_of
from agentcli.sessions.session import SessionLog, read_session
from agentcli.workspace.names import display_path, first_names, is_generated, quoted_path

_LONGEST_NAME = 200
_MOST_NAMED = 20


@dataclass(frozen=True)
class UndoResult:
    """Where the session is now (`to_event`), what changed on the way, the event at which the
    previous state of the workspace is kept, and what no snapshot has and was therefore left
    alone."""

    to_event: int
    steps: int
    changes: tuple[Change, ...]
    kept_at: int | None
    left_out: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Files that make git run programs, not restored because commands may have made them."""


def undo(session: SessionLog, count: int, *, force: bool = False) -> UndoResult:
    """Undo what the newest `count` steps that changed files, or git's own state, did to them.

    Everything else stays as it is. Raises UsageError if there are fewer such steps, or if somebody
    else has changed the same files since (unless `force`).
    """
    kept = checkpoints_of(session.folder, session.state.workspace)
    steps = steps_with_trees(session.events)
    if steps:
        _require_workspace(session, kept)
    now = kept.take(thorough=True).tree if steps else ""
    damaged = kept.overwritten(steps[-1].after or now, now) if steps else set()
    undone = _newest_changes(kept, steps, now, count, any_change=bool(damaged))
    if not undone:
        raise UsageError(
            f"session {session.id} has changed no files that could be undone",
            hint="for another one of agent sessions list: agent undo --session SESSION",
        )
    if count > len(undone):
        raise UsageError(f"only {_steps(len(undone))} of session {session.id} changed files")
    target = undone[0].before
    mine = {path for step in undone for path in kept.paths(step.before, step.after or now)}
    damaged |= kept.overwritten(target, now)
    if not force:
        mine -= _others_work(kept, undone, now, target, mine)
    flags = f" {count}" * (count > 1) + " --force" * force
    begun = RestoreStartedObservation(
        content=f"undo of {_steps(count)}", command=f"agent undo{flags} --session {session.id}"
    )
    with _undoing(session, now, begun) as kept_at:
        done = kept.restore(target, mine | damaged, idle=idle_snapshots(session.events))
        tree = kept.take().tree
    to_event = undone[0].event_id - 1
    which = "last step" if count == 1 else f"last {count} steps"
    told = _told(f"The user undid your {which} that changed files.", done)
    _record(session, RewindAction(to_event=to_event, conversation=False, tree=tree), told)
    return _result(session, to_event, count, done, kept_at)


def rewind(session: SessionLog, event_id: int, *, files: bool, conversation: bool) -> UndoResult:
    """Bring `files`, the `conversation` or both back to just after event `event_id`, or to the last
    event before it that does not cut a step in two.

    Raises UsageError if there is no such place, SessionError if the files of that time were not
    kept; then nothing is changed.
    """
    cut = cut_at(session.events, event_id)
    if not files:
        told = (
            "[The user went back to this point of the conversation. The files are as later work "
            "left them: look before you rely on what is said above.]"
        )
        _record(session, RewindAction(to_event=cut), told)
        return UndoResult(cut, 0, (), len(session.events) - 3)
    wanted = _tree_to_restore(session, cut)
    kept = checkpoints_of(session.folder, session.state.workspace)
    _require_workspace(session, kept)
    now = kept.take(thorough=True).tree
    # In a repository shared with other worktrees, restore only what the session touched.
    shared = {path for span in step_snapshots(session.events) for path in kept.paths(*span)}
    only = "" if conversation else " --files"
    begun = RestoreStartedObservation(
        content=f"going back to event {cut}", command=f"agent rewind {session.id}{only} --to {cut}"
    )
    with _undoing(session, now, begun) as kept_at:
        done = kept.restore(wanted or now, shared=shared, idle=idle_snapshots(session.events))
        tree = kept.take().tree
    told = "" if conversation else _told("The user brought files back to an earlier state.", done)
    action = RewindAction(to_event=cut, conversation=conversation, tree=tree)
    _record(session, action, told)
    return _result(session, cut, 0, done, kept_at)


def _result(
    session: SessionLog, to_event: int, steps: int, done: Restored, kept_at: int
) -> UndoResult:
    named = (e.left_out for e in session.events if isinstance(e, CheckpointObservation))
    left_out = tuple(dict.fromkeys(chain.from_iterable(named)))
    return UndoResult(to_event, steps, tuple(done.changes), kept_at, left_out, tuple(done.held))


def _newest_changes(
    kept: Checkpoints, steps: list[StepTrees], now: str, count: int, *, any_change: bool
) -> list[StepTrees]:
    """Return the newest steps that changed something, at most `count`, oldest first. Damage that no
    snapshot saw (`any_change`) is attributed to the newest step."""

    def is_change(step: StepTrees) -> bool:
        is_cause = any_change and step is steps[-1]
        return is_cause or bool(kept.changes(step.before, step.after or now))

    return list(islice(filter(is_change, reversed(steps)), count))[::-1]


@contextmanager
def _undoing(session: SessionLog, now: str, begun: RestoreStartedObservation) -> Iterator[int]:
    """Wrap a restore. Records first the workspace as it is, in the event whose id is yielded, and
    what is about to happen, so that the model is told if it does not finish."""
    kept = CheckpointObservation(tree=now, moment="before_rewind")
    events = session.emit_group([kept, begun])
    try:
        yield events[0].id
    except BaseException:
        session.emit(
            MessageAction(content=partial_restore_message(begun), source=Source.ENVIRONMENT)
        )
        raise


def _record(session: SessionLog, action: RewindAction, told: str) -> None:
    """Record what was done and a message to the model in one write, so that neither is alone."""
    done = action.model_copy(update={"source": Source.USER, "told": told})
    message = MessageAction(content=told, source=Source.ENVIRONMENT)
    session.emit_group([done, message] if told else [done])


def _tree_to_restore(session: SessionLog, cut: int) -> str | None:
    """Return the snapshot to restore. Raises SessionError if there is none for this workspace."""
    hint = "to go back in the conversation only: --conversation"
    if then := former_workspace(session.events, cut):
        raise SessionError(
            f"at event {cut} the session worked in {then}; it now works elsewhere", hint=hint
        )
    try:
        return snapshot_at(session.events, cut)
    except SessionError as error:
        error.hint = hint
        raise


def _require_workspace(session: SessionLog, kept: Checkpoints) -> None:
    """Raise SessionError if somebody else has moved or deleted the workspace."""
    if kept.root.is_dir():
        return
    last = newest(session.events, CheckpointObservation)
    if last is None or not kept.is_empty(last.tree):
        raise SessionError(
            f"session {session.id} worked in {session.state.workspace}, which is no longer there",
            hint=f"to restore its files elsewhere: agent fork {session.id} --dir DIR",
        )


def _others_work(
    kept: Checkpoints, undone: list[StepTrees], now: str, target: str, mine: Collection[str]
) -> set[str]:
    """Return the paths that somebody else has changed since and in which git only keeps notes, such
    as its logs. Raises UsageError if undoing would lose other changes of theirs."""
    ends = [*(step.before for step in undone[1:]), now]
    foreign = {
        path
        for step, later in zip(undone, ends, strict=True)
        for path in kept.paths(step.after or now, later)
    }
    # An undo that was cut off leaves folders that differ only in their mode.
    differ = kept.paths(now, target, folder_modes=False)
    notes = {path for path in foreign if kept.is_incidental(path)}
    lost = sorted((foreign & differ & set(mine)) - notes)
    if lost:
        raise UsageError(
            f"changed since by somebody else: {_few(display_path(kept.shown(p)) for p in lost)}",
            hint="to undo anyway and lose these changes: --force",
        )
    return notes


def _told(what: str, done: Restored) -> str:
    """Describe the changes to the model, because what it knows of the files is outdated."""
    now = {"added": "there again", "deleted": "gone again", "modified": "as before"}
    told = [what]
    files = [change for change in done.changes if not change.git_description]
    for kind, state in now.items():
        paths = [c.path for c in files if ("modified" if c.kind == "mode" else c.kind) == kind]
        if paths:
            told.append(f"{state.capitalize()}: {_few(map(_quoted, paths))}.")
    if git := [change.git_description for change in done.changes if change.git_description]:
        told.append(f"Besides: {_few(map(_quoted, git))}.")
    if done.held:
        told.append(f"Not brought back: {_few(map(_quoted, done.held))}.")
    return f"[{' '.join(told)}]"


def _quoted(path: str) -> str:
    return quoted_path(path, _LONGEST_NAME)


def _few(found: Iterable[str]) -> str:
    return first_names(list(found), _MOST_NAMED)


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


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
