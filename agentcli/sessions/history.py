"""Where one can go back to in a session, and what that means for its files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentcli.errors import SessionError, UsageError
from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.events.observations import (
    CheckpointObservation,
    DecisionObservation,
    ReplyDiscardedObservation,
)


@dataclass(frozen=True)
class StepTrees:
    """The snapshots around a step that may have changed files; `after` is None when nothing was
    kept since: the workspace as it is now."""

    event_id: int
    before: str
    after: str | None


def steps_with_trees(events: Sequence[Event]) -> list[StepTrees]:
    """Such steps, oldest first, without those that a person took back."""
    steps: list[StepTrees] = []
    is_open = False
    for event in events:
        if isinstance(event, CheckpointObservation):
            if is_open and event.tree:
                steps[-1] = StepTrees(steps[-1].event_id, steps[-1].before, event.tree)
            elif is_open:
                steps.pop()
            is_open = bool(event.tree) and event.moment == "before_step"
            if is_open:
                steps.append(StepTrees(event.id, event.tree, None))
        elif isinstance(event, RewindAction) and event.tree is not None:
            steps = [step for step in steps if step.event_id <= event.to_event]
            is_open = False
    return steps


def tree_at(events: Sequence[Event], event_id: int) -> str | None:
    """The snapshot of the workspace as it was just after event `event_id`; None when nothing has
    changed it since then, as far as the session knows.

    Raises SessionError when that state was not kept.
    """
    unknown = SessionError(
        f"the files as they were at event {event_id} were not kept",
        hint="going back in the conversation alone works: --conversation",
    )
    for event in reversed(events[: event_id + 1]):
        if isinstance(event, CheckpointObservation):
            if not event.tree:
                raise unknown
            break
    for event in events[event_id:]:
        if isinstance(event, CheckpointObservation):
            if not event.tree:
                raise unknown
            return event.tree
        if isinstance(event, RewindAction) and event.tree is not None:
            return event.tree
    return None


def newest_tree(events: Sequence[Event]) -> str | None:
    """The snapshot that was made last."""
    for event in reversed(events):
        if isinstance(event, CheckpointObservation):
            return event.tree or None
    return None


def trees(events: Sequence[Event]) -> list[str]:
    """Every snapshot that these events name, once."""
    named = (e.tree for e in events if isinstance(e, CheckpointObservation) and e.tree)
    return list(dict.fromkeys(named))


def cut_at(events: Sequence[Event], event_id: int) -> int:
    """The last event at or before `event_id` where the conversation can be cut: no reply is torn
    there and no action unanswered.

    Raises UsageError when there is no such event after the task was given.
    """
    if not 0 <= event_id < len(events):
        raise UsageError(
            f"there is no event {event_id}: the newest is {len(events) - 1}",
            hint="event ids stand in: agent sessions show --events",
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
        told = told or (isinstance(event, MessageAction) and event.source is Source.USER)
        if told and not waiting and not torn:
            cut = event.id
    if cut < 0:
        raise UsageError(f"event {event_id} comes before the task was given")
    return cut
