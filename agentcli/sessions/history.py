"""What the events of a session say: points to go back to and their snapshots, work in progress
where the log breaks off, totals. Pure functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, pairwise
from typing import Any

from agentcli.errors import SessionError, UsageError
from agentcli.events import Action, Event, Observation, Progress, Source
from agentcli.events.actions import (
    AgentDelegateAction,
    AskUserAction,
    FileReadAction,
    GlobAction,
    RewindAction,
    SearchAction,
    is_user_message,
)
from agentcli.events.conversation import newest_first
from agentcli.events.observations import (
    CheckpointObservation,
    DecisionObservation,
    DelegateObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    ReplyDiscardedObservation,
    RestoreStartedObservation,
    SessionStartedObservation,
)
from agentcli.messages import Usage


@dataclass(frozen=True)
class StepTrees:
    """The snapshots around a step that may have changed files. `after` is None when no later
    snapshot was taken: the workspace as it is now."""

    event_id: int
    before: str
    after: str | None


def steps_with_trees(events: Sequence[Event]) -> list[StepTrees]:
    """Return these steps for the current workspace, oldest first, without those that a user
    undid."""
    known: list[tuple[int, tuple[StepTrees, ...]]] = [(-1, ())]
    steps: list[StepTrees] = []
    workspace = None
    for event in events:
        if isinstance(event, CheckpointObservation):
            _close(steps, event.tree)
            if event.tree and event.moment == "before_step":
                steps.append(StepTrees(event.id, event.tree, None))
        elif isinstance(event, RewindAction) and event.tree is not None:
            # The same steps count as at `to_event`: one undone before it stays undone, one undone
            # after it counts again.
            steps = list(known[bisect_right(known, event.to_event, key=lambda at: at[0]) - 1][1])
            _close(steps, event.tree)
        elif isinstance(event, SessionStartedObservation):
            if event.workspace != workspace and event.forked_from is None:
                steps = []
            workspace = event.workspace
        else:
            continue
        known.append((event.id, tuple(steps)))
    return steps


@dataclass(frozen=True)
class FileState:
    """The files as they were after step `step`, counting replies from 1; 0 means before the first
    step that may have changed any. `by_agent` is False if someone else changed them after that
    step."""

    tree: str
    step: int = 0
    event_id: int = -1
    by_agent: bool = True


def file_states(events: Sequence[Event], now: str | None) -> list[FileState]:
    """Return the states of the current workspace, oldest first, each different from the one before.
    `now` is a snapshot of the present files, if one was needed and taken."""
    replies = [e.id for e in events if e.reply is not None and e.reply.index == 0]
    found: list[FileState] = []
    for step in steps_with_trees(events):
        number = bisect_right(replies, step.event_id)
        if not found:
            found.append(FileState(step.before))
        elif found[-1].tree != step.before:
            found.append(FileState(step.before, found[-1].step, step.event_id, by_agent=False))
        after = step.after or now
        if after is not None and after != step.before:
            found.append(FileState(after, number, step.event_id))
    return found


def actions_of_step(events: Sequence[Event], step: int) -> list[Action]:
    """Return the actions that reply number `step` asked for."""
    first = [e for e in events if e.reply is not None and e.reply.index == 0][step - 1]
    assert first.reply is not None
    return [
        event
        for event in events[first.id :]
        if isinstance(event, Action) and event.runnable
        if event.reply is not None and event.reply.id == first.reply.id
    ]


def step_snapshots(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return the snapshots before and after each step for which both were kept, including steps
    that were undone."""
    kept = [event for event in events if isinstance(event, CheckpointObservation)]
    return [
        (before.tree, after.tree)
        for before, after in pairwise(kept)
        if before.moment == "before_step" and before.tree and after.tree
    ]


def idle_snapshots(events: Sequence[Event]) -> list[str] | None:
    """Return the snapshots taken while no command ran: before the first step of a turn, after the
    last step, and around an undo or rewind. None for a session that never had a sandbox: its
    commands had all the user's rights."""
    contained = False
    first = True
    found: list[str] = []
    for event in events:
        if isinstance(event, SessionStartedObservation):
            contained = contained or (event.forked_from is None and event.sandbox != "none")
            first = True
        elif isinstance(event, CheckpointObservation):
            in_turn = event.moment == "before_step"
            found += [event.tree] if event.tree and (first or not in_turn) else []
            first = not in_turn
        elif isinstance(event, RewindAction) and event.tree:
            found.append(event.tree)
    return list(dict.fromkeys(found)) if contained else None


def _close(steps: list[StepTrees], after: str) -> None:
    """Set the snapshot after the newest step. If there is none, drop the step, because its changes
    are unknown."""
    if steps and steps[-1].after is None:
        last = steps.pop()
        if after:
            steps.append(StepTrees(last.event_id, last.before, after))


def snapshot_at(events: Sequence[Event], event_id: int) -> str | None:
    """Return the snapshot of the workspace as it was just after event `event_id`; None when, as far
    as the session knows, nothing has changed since.

    Raises SessionError when that state was not kept.
    """
    acted = False
    for event in reversed(events[: event_id + 1]):
        if isinstance(event, CheckpointObservation):
            if acted and event.tree:
                break
            return _known(event.tree, event_id)
        if isinstance(event, RewindAction) and event.tree is not None and not acted:
            return event.tree
        acted = acted or (isinstance(event, Observation) and event.cause is not None)
    for event in events[event_id + 1 :]:
        if isinstance(event, CheckpointObservation):
            return _known(event.tree, event_id)
    return None


def _known(tree: str, event_id: int) -> str:
    if not tree:
        raise SessionError(f"there is no snapshot of the files at event {event_id}")
    return tree


def former_workspace(events: Sequence[Event], event_id: int) -> str | None:
    """Return the workspace at `event_id` if the session has moved to another since, else None. A
    fork does not count as a move."""
    workspaces: list[str] = []
    then = 0
    for event in events:
        if isinstance(event, SessionStartedObservation):
            if workspaces and event.forked_from is not None:
                workspaces[-1] = event.workspace
            elif not workspaces or workspaces[-1] != event.workspace:
                workspaces.append(event.workspace)
        if event.id <= event_id:
            then = len(workspaces) - 1
    return workspaces[then] if 0 <= then < len(workspaces) - 1 else None


def all_snapshots(events: Sequence[Event]) -> list[str]:
    """Return every snapshot named by these events, without duplicates."""
    named = (
        e.tree for e in events if isinstance(e, CheckpointObservation | RewindAction) and e.tree
    )
    return list(dict.fromkeys(named))


def cut_at(events: Sequence[Event], event_id: int) -> int:
    """Return the last event at or before `event_id` where the conversation can be cut: no reply is
    incomplete there and no action unanswered.

    Raises UsageError when there is no such event after the task was given.
    """
    if not 0 <= event_id < len(events):
        raise UsageError(
            f"there is no event {event_id}: the newest is {len(events) - 1}",
            hint="without --to, agent rewind lists the events to go back to",
        )
    waiting: set[int] = set()
    replies: dict[str, set[int]] = {}
    torn = False
    cut, has_task = -1, False
    for event in events[: event_id + 1]:
        if event.reply is not None:
            torn = event.reply.index < event.reply.total - 1
        if isinstance(event, Action) and event.runnable and event.tool_call_metadata:
            waiting.add(event.id)
            if event.reply is not None:
                replies.setdefault(event.reply.id, set()).add(event.id)
        elif isinstance(event, ReplyDiscardedObservation):
            waiting -= replies.get(event.reply_id, set())
            torn = False
        elif isinstance(event, Observation) and not isinstance(event, DecisionObservation):
            waiting.discard(-1 if event.cause is None else event.cause)
        has_task = has_task or is_user_message(event)
        if has_task and not waiting and not torn:
            cut = event.id
    if cut < 0:
        raise UsageError(f"event {event_id} comes before the task was given")
    return cut


_READS = (FileReadAction, SearchAction, GlobAction)


def torn_reply(events: Sequence[Event]) -> str | None:
    """Return the id of the last reply if only its beginning was written."""
    last = events[-1].reply if events else None
    return last.id if last and last.index < last.total - 1 else None


def open_actions(events: Sequence[Event]) -> list[Action]:
    """Return the actions of this turn that have no observation, in order."""
    answered: set[int | None] = set()
    discarded: set[str] = set()
    found: list[Action] = []
    for event in newest_first(events):
        if isinstance(event, ReplyDiscardedObservation):
            discarded.add(event.reply_id)
        elif isinstance(event, Observation):
            if not isinstance(event, DecisionObservation):
                answered.add(event.cause)
        elif event.source is Source.USER:
            break
        elif (
            isinstance(event, Action)
            and event.runnable
            and event.id not in answered
            and not (event.reply and event.reply.id in discarded)
        ):
            found.append(event)
    return found[::-1]


def without_delegated(actions: Sequence[Action]) -> list[Action]:
    """Return the open actions without leading delegations: an interrupted child continues where its
    own session stopped, so that its work is not done twice."""
    return list(dropwhile(lambda action: isinstance(action, AgentDelegateAction), actions))


def awaits_approval(events: Sequence[Event], action: Action) -> bool:
    """Whether `action` is a question, or approval was asked for it, that was never answered."""
    if isinstance(action, AskUserAction):
        return True
    for event in newest_first(events):
        if isinstance(event, DecisionObservation) and event.cause == action.id:
            return event.decision == "ask"
        if event is action:
            break
    return False


def interruption_was_recorded(events: Sequence[Event]) -> bool:
    """Whether an earlier recovery, itself killed before it finished, has already recorded that the
    kill interrupted the running action."""
    for event in newest_first(events):
        if event.reply is not None:
            break
        if isinstance(event, ErrorObservation) and event.error_id == "interrupted":
            return True
    return False


def unfinished_restore(events: Sequence[Event]) -> RestoreStartedObservation | None:
    """Return the restore of earlier files that was started but not finished, if nobody has worked
    in the session since."""
    for event in reversed(events):
        if isinstance(event, RestoreStartedObservation):
            return event
        said = is_user_message(event)
        if said or isinstance(event, RewindAction) or event.reply is not None:
            return None
    return None


def unsent_restore_message(events: Sequence[Event]) -> str:
    """Return the message about a user's undo or rewind that the model has not received because
    the process was killed first; empty if there is none."""
    last = events[-1] if events else None
    if isinstance(last, RewindAction):
        return last.told
    return partial_restore_message(last) if isinstance(last, RestoreStartedObservation) else ""


def partial_restore_message(begun: RestoreStartedObservation) -> str:
    """Return the message to the model about a restore that was not finished."""
    return (
        f"[The user began to bring files back to an earlier state ({begun.content}), and that was "
        "cut off: some are as they were then, others not. Look before you rely on any.]"
    )


def with_may_have_begun(actions: Iterable[Action]) -> Iterable[tuple[Action, bool]]:
    """Yield each open action and whether it may have begun: the first one, and reads beside it."""
    begun = True
    for index, action in enumerate(actions):
        begun = begun and (index == 0 or isinstance(action, _READS))
        yield action, begun
        begun = begun and isinstance(action, _READS)


@dataclass
class SessionTotals:
    """Counts events as they come; can subscribe to a session. Tokens and money include those of
    children; `cost_usd` is None when the price of a reply is unknown. `trees` are the first and the
    last snapshot of the workspace, if there are any; `first_id` is the first event."""

    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    trees: tuple[str, str] | None = None
    first_id: int | None = None
    _known: dict[str, str] = field(default_factory=dict)
    _files: dict[str, tuple[str | None, str]] = field(default_factory=dict)

    @property
    def files_changed(self) -> tuple[str, ...]:
        """The files that the file tools left different from when they were first read, in order of
        the first change."""
        return tuple(path for path, (first, last) in self._files.items() if first != last)

    def on_event(self, event: Event) -> None:
        if self.first_id is None:
            self.first_id = event.id
        if metrics := event.llm_metrics:
            self.steps += 1
            self._add(vars(metrics))
        if isinstance(event, DelegateObservation):
            for used in event.metrics.values():
                self._add(used)
        if isinstance(event, FileWriteObservation | FileEditObservation):
            first = self._files.get(event.path, (self._known.get(event.path), ""))[0]
            self._files[event.path] = (first, event.digest)
        if isinstance(event, FileReadObservation | FileWriteObservation | FileEditObservation):
            self._known[event.path] = event.digest
        if isinstance(event, CheckpointObservation) and event.tree:
            self.trees = (self.trees[0] if self.trees else event.tree, event.tree)

    def _add(self, used: Mapping[str, Any]) -> None:
        self.usage += Usage.of(used)
        usd = used.get("cost_usd")
        self.cost_usd = None if self.cost_usd is None or usd is None else self.cost_usd + usd

    def on_progress(self, progress: Progress) -> None:
        """Do nothing: progress does not count."""


def totals(events: Iterable[Event]) -> SessionTotals:
    counted = SessionTotals()
    for event in events:
        counted.on_event(event)
    return counted
