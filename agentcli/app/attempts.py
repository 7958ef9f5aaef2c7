"""Several attempts at one task, each in a copy of the workspace and of the conversation so far; the
best is brought back.

An attempt is an ordinary session that works in its copy. At the end the copies are removed: the
chosen session continues in the workspace itself, and the files of the others are in their
snapshots.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.check import CheckResult
from agentcli.app.copy_check import CopyCheck
from agentcli.app.fork import beginning, lent_by, moved, require_no_secrets, scratch_place
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Change
from agentcli.errors import ConfigError, SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, RenameAction
from agentcli.events.conversation import newest
from agentcli.events.observations import CheckpointObservation, SessionStartedObservation
from agentcli.sessions.finder import new_folder, state_of
from agentcli.sessions.history import all_snapshots, cut_at, idle_snapshots
from agentcli.sessions.session import SessionLog, SessionRecord, read_session
from agentcli.sessions.staging import copy_events, scratch, staging
from agentcli.sessions.state import State
from agentcli.settings import Settings
from agentcli.workspace.names import display_path, is_generated


@dataclass(frozen=True)
class AttemptCopy:
    """What try `number` starts with: a copy of the workspace and, in `session`, of the conversation
    so far, if there is one. `original` is the folder that was copied, `lent` are its parts that the
    copy only links to; `notes` are for people."""

    number: int
    workspace: Path
    session: Path | None
    original: Path
    lent: tuple[Path, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """What an attempt did in its copy: the snapshots before (`base`) and after (`tree`), and how
    many files and lines it changed. `check` is None if no check was asked for. Without snapshots,
    the attempt was not judged."""

    base: str = ""
    tree: str = ""
    files: int = 0
    added: int = 0
    removed: int = 0
    check: CheckResult | None = None

    @property
    def lines(self) -> int:
        return self.added + self.removed


class Attempts:
    """Makes copies of the workspace of `builder` as it is now, one for each attempt. `original` is
    the session to continue, if any; it is only read."""

    def __init__(self, builder: AgentBuilder, original: SessionRecord | None, own: Path) -> None:
        self._builder = builder
        self._original = original
        self._store = checkpoints_of(own, str(builder.workspace))
        require_no_secrets(self._store.root, builder.environ)
        self._tree = self._store.take(thorough=True).tree
        self._limits = builder.limits(self.state)

    @property
    def state(self) -> State:
        """The state of the conversation so far."""
        return self._original.state if self._original else State()

    def _spent_usd(self, state: State) -> float:
        return self._limits.spent_usd(state) + state.abandoned_usd

    def share_usd(self, count: int) -> float | None:
        """Return what each of `count` attempts may spend so that together they stay within the
        budget; None without a limit."""
        left = self._limits.left_usd(self.state)
        return None if left is None else left / count

    def left_usd(self, every: Collection[Path]) -> float | None:
        """Return what is left of the budget after what all attempts in `every` have spent; None
        without a limit."""
        left = self._limits.left_usd(self.state)
        if left is None:
            return None
        before = self._spent_usd(self.state)
        used = sum(self._spent_usd(state_of(folder)) - before for folder in every)
        return max(0.0, left - used)

    def settings(
        self, model: str, more_usd: float | None, folder: Path | None, *, mends: bool
    ) -> Settings:
        """Return the settings of an attempt: with its own `model`, if given, and `more_usd` to
        spend; `folder` is the session, if it continues one. `mends`: a failed check goes back to
        the model."""
        settings = self._builder.settings
        if not mends:
            settings = settings.changed(run={"check": ""})
        if more_usd is not None:
            spent = self._spent_usd(state_of(folder) if folder else self.state)
            settings = settings.changed(agent={"max_budget_usd": spent + more_usd})
        return settings.changed(model={"name": model}) if model else settings

    def copy(self, number: int, folder: Path) -> AttemptCopy:
        """Make a copy in `folder`, which is empty. Raises SessionError, and UsageError if a copy
        would not work like the workspace."""
        builder, root = self._builder, self._store.root
        lends = builder.settings.sandbox.layer != "none"
        top = folder / root.name
        notes = self._store.write_out(self._tree, top, lend=lends)
        workspace = moved(builder.workspace, root, top)
        session = self._branch(workspace, top) if self._original else None
        if checkpoints_of(folder, str(workspace)).root != top:
            raise UsageError(
                f"{builder.workspace} belongs to a repository that is elsewhere, so tries can't "
                "work in copies of it",
                hint=f"start at its top: -C {root}",
            )
        lent = lent_by(self._store, self._tree) if lends else ()
        return AttemptCopy(number, workspace, session, root, lent, tuple(notes))

    def _branch(self, workspace: Path, root: Path) -> Path:
        """Create a session that continues the original one in `workspace`."""
        record, home = self._original, self._builder.home
        assert record is not None
        before = self._builder.workspace
        cut = cut_at(record.events, len(record.events) - 1)
        folder = new_folder(home)
        with staging(home, folder.name) as staged:
            theirs = checkpoints_of(record.folder, str(before))
            theirs.copy_to(staged / "checkpoints", all_snapshots(record.events))
            checkpoints_of(staged, str(before)).move_to(workspace, root)
            first = beginning(record, folder.name, cut, before, workspace)
            copy_events(record.folder, staged, cut, first)
        return folder

    def changed_since(self) -> list[Change]:
        """Return what somebody else has changed in the workspace since the copies were made."""
        return self._store.changes(self._tree, self._store.take(thorough=True).tree)

    def bring_in(
        self, folder: Path, judged: Judgement, every: Collection[Path], name: str | None = None
    ) -> None:
        """Repeat in the workspace what the attempt in `folder`, one of `every`, did in its copy.
        Its session, which gets the `name`, continues there, and `agent undo` takes all of it back
        as one step. Raises SessionError; then the workspace is as it was."""
        workspace = self._builder.workspace
        with SessionLog.open(folder) as session:
            kept = checkpoints_of(folder, str(workspace))
            idle = idle_snapshots(session.events)
            before = kept.take(thorough=True).tree
            paths = kept.paths(judged.base, judged.tree)
            left = self.left_usd(every)
            budget = None if left is None else self._spent_usd(session.state) + left
            session.emit_group([_moved_to(session, workspace, budget), _checkpoint(before)])
            try:
                kept.restore(judged.tree, paths, idle=idle)
            except SessionError:
                kept.restore(before, paths)
                session.emit(_checkpoint(before, at_end=True))
                raise
            told = _chosen(workspace, len(every))
            done: list[Event] = [
                _checkpoint(kept.take().tree, at_end=True),
                MessageAction(content=told, source=Source.ENVIRONMENT),
            ]
            if judged.check is not None:
                # The result also holds for the files as they are now.
                done.append(judged.check.as_event())
            session.emit_group(done)
            if name is not None:
                session.emit(RenameAction(name=name, source=Source.USER))


@contextmanager
def attempts_of(
    builder: AgentBuilder, original: SessionRecord | None, count: int
) -> Iterator[tuple[Attempts, list[AttemptCopy]]]:
    """Yield the attempts with `count` copies, which are removed when the block ends, however it
    ends. Raises UsageError, ConfigError, SessionError."""
    if not builder.settings.agent.checkpoints:
        raise ConfigError("tries need snapshots", hint="--set agent.checkpoints=true")
    if original is not None:
        original.require_whole()
        if (before := original.state.workspace) != str(builder.workspace):
            raise UsageError(f"tries of {original.folder.name} must start in {before}")
    with scratch(builder.home, scratch_place(builder.environ)) as made:
        attempts = Attempts(builder, original, made.own)
        copies = []
        for number in range(1, count + 1):
            folder = made.files / str(number)
            folder.mkdir(mode=0o700)
            copies.append(attempts.copy(number, folder))
        yield attempts, copies


def judge(
    builder: AgentBuilder,
    copy: AttemptCopy,
    folder: Path,
    command: str | None,
    limit_s: float,
    redact: Callable[[str], str],
) -> Judgement:
    """Judge the attempt at `copy` in `folder`, whose turn has ended. Records its snapshot, and runs
    the check `command`, if given, in another copy, so that it leaves nothing in the attempt's."""
    record = read_session(folder)
    workspace = Path(record.state.workspace)
    store = checkpoints_of(folder, str(workspace))
    tree = store.take(thorough=True).tree
    with SessionLog.open(folder) as session:
        session.emit(_checkpoint(tree, at_end=True))
    base = _first_tree(record.events, record.state.workspace) or tree
    check = None
    if command is not None:
        idle = idle_snapshots(record.events)
        copied = (copy.original, copy.lent)
        check, _ = CopyCheck(builder, command, limit_s, redact).run(
            store, workspace, tree, idle, *copied
        )
        with SessionLog.open(folder) as session:
            session.emit(check.as_event())
    changes = [
        change
        for change in store.changes(base, tree)
        if not change.git_description and not is_generated(change.path)
    ]
    added, removed = lines_changed(store.diff(base, tree))
    return Judgement(base, tree, len(changes), added, removed, check)


def lines_changed(patch: str) -> tuple[int, int]:
    """Return how many lines a patch adds and removes."""
    added = removed = 0
    in_hunk = False
    for line in patch.splitlines():
        if line.startswith(("diff ", "@@")):
            in_hunk = line.startswith("@@")
        elif in_hunk:
            added += line.startswith("+")
            removed += line.startswith("-")
    return added, removed


def _first_tree(events: Sequence[Event], workspace: str) -> str | None:
    """Return the snapshot before the first step of the attempt in this workspace; None if no step
    changed anything. Raises SessionError if it was not kept."""
    began = False
    for event in events:
        if isinstance(event, SessionStartedObservation):
            began = began or event.workspace == workspace
        if began and isinstance(event, CheckpointObservation):
            if not event.tree:
                told = f"the files before the first step were not kept: {event.content}"
                raise SessionError(told)
            return event.tree
    return None


def _checkpoint(tree: str, *, at_end: bool = False) -> CheckpointObservation:
    return CheckpointObservation(tree=tree, moment="turn_end" if at_end else "before_step")


def _moved_to(
    session: SessionLog, workspace: Path, budget_usd: float | None
) -> SessionStartedObservation:
    """Return the start of a process like the session's last one, but in `workspace`."""
    last = newest(session.events, SessionStartedObservation)
    assert last is not None
    here = {"workspace": str(workspace), "pid": os.getpid(), "host": socket.gethostname()}
    now = {"writable": None, "resumed": True, "forked_from": None, "max_budget_usd": budget_usd}
    return last.model_copy(update={**here, **now})


def _chosen(workspace: Path, count: int) -> str:
    where = display_path(str(workspace))
    told = f"one of {count} tries" if count > 1 else "a try"
    return (
        f"[This was {told} at the task, in a copy of the workspace. The user had what you changed "
        f"brought into {where}. You work there from here on; the copy is gone.]"
    )
