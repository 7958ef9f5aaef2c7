"""The points that a session can go back to, and what that means for its files. Pure functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentcli.errors import SessionError, UsageError
from agentcli.events import Action, Event, Observation
from agentcli.events.actions import RewindAction, is_user_message
from agentcli.events.observations import (
    CheckpointObservation,
    DecisionObservation,
    ReplyDiscardedObservation,
    SessionStartedObservation,
)


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
    cut, told = -1, False
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
        told = told or is_user_message(event)
        if told and not waiting and not torn:
            cut = event.id
    if cut < 0:
        raise UsageError(f"event {event_id} comes before the task was given")
    return cut
