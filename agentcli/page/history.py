"""Arranges the events of a session for people: turns, steps, and what belongs to each call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from agentcli.events import Action, Event, LLMMetrics, Observation, Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import DelegateStartedObservation


@dataclass
class Step:
    """One reply of the model with everything until the next. `number` counts from 1."""

    number: int
    metrics: LLMMetrics | None
    events: list[Event] = field(default_factory=list)

    @property
    def first(self) -> Event:
        return self.events[0]


@dataclass
class Turn:
    """Everything from one message of the user to the next. `said` is None for what comes before
    the first; `events` are those that belong to no step."""

    number: int
    said: MessageAction | None
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def first(self) -> Event | None:
        begun = [*self.events[:1], *(step.first for step in self.steps[:1])]
        return min(begun, key=lambda event: event.id, default=None)


@dataclass(frozen=True)
class History:
    """All events of a session with its header. `children` are the available sessions that it
    delegated to, by id."""

    header: Mapping[str, Any]
    events: Sequence[Event]
    children: Mapping[str, History] = field(default_factory=dict)

    @cached_property
    def belonging(self) -> Mapping[int, Sequence[Event]]:
        """The events that belong to each call, by its id: decisions, children, results."""
        calls = {event.id for event in self.events if _is_call(event)}
        found: dict[int, list[Event]] = {}
        for event in self.events:
            call = _call_of(event)
            if call in calls and call != event.id:
                found.setdefault(call, []).append(event)
        return found

    @cached_property
    def turns(self) -> Sequence[Turn]:
        return _turns(self._standing_alone())

    @property
    def steps(self) -> Iterator[Step]:
        return (step for turn in self.turns for step in turn.steps)

    def _standing_alone(self) -> Iterator[Event]:
        """Yield the events that are not part of a call's entry."""
        inside = {id(event) for events in self.belonging.values() for event in events}
        return (event for event in self.events if id(event) not in inside)


def _is_call(event: Event) -> TypeGuard[Action]:
    return isinstance(event, Action) and event.runnable


def _call_of(event: Event) -> int:
    """Return the id of the call that an event belongs to, -1 if there is none."""
    if isinstance(event, DelegateStartedObservation):
        return event.action_id
    return event.cause if isinstance(event, Observation) and event.cause is not None else -1


def _turns(events: Iterable[Event]) -> list[Turn]:
    turns = [Turn(0, None)]
    step: Step | None = None
    reply = ""
    steps = 0
    for event in events:
        if begins_turn(event):
            turns.append(Turn(len(turns), event))
            step = None
        elif event.reply is not None and event.reply.id != reply:
            reply = event.reply.id
            steps += 1
            step = Step(steps, event.llm_metrics)
            turns[-1].steps.append(step)
        (step or turns[-1]).events.append(event)
    return [turn for turn in turns if turn.events or turn.steps]


def begins_turn(event: Event) -> TypeGuard[MessageAction]:
    """Return whether the event is a message of the user that was not sent to steer a turn in
    progress."""
    if not isinstance(event, MessageAction) or event.source is not Source.USER:
        return False
    return event.delivery != "steer"
