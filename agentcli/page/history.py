"""Arranges the events of a session for people: turns, steps, and what belongs to each call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentcli.events import Action, Event, LLMMetrics, Observation
from agentcli.events.actions import MessageAction, is_user_message
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
        calls = {e.id for e in self.events if isinstance(e, Action) and e.runnable}
        found: dict[int, list[Event]] = {}
        for event in self.events:
            call = _call_of(event)
            if call in calls and call != event.id:
                found.setdefault(call, []).append(event)
        return found

    @cached_property
    def turns(self) -> Sequence[Turn]:
        """The turns, without the events that are part of a call's entry."""
        inside = {id(event) for events in self.belonging.values() for event in events}
        return _turns(event for event in self.events if id(event) not in inside)

    @property
    def steps(self) -> Iterator[Step]:
        return (step for turn in self.turns for step in turn.steps)


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
        if is_user_message(event) and event.delivery != "steer":
            turns.append(Turn(len(turns), event))
            step = None
        elif event.reply is not None and event.reply.id != reply:
            reply = event.reply.id
            steps += 1
            step = Step(steps, event.llm_metrics)
            turns[-1].steps.append(step)
        (step or turns[-1]).events.append(event)
    return [turn for turn in turns if turn.events or turn.steps]
