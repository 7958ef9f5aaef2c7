"""Which events belong to the current conversation, after the user went back in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from agentcli.events.actions import RewindAction
from agentcli.events.base import Event

E = TypeVar("E", bound=Event)


def newest_first(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the current conversation backwards. `events` are all events of a session, from id 0.
    Lazy: the cost is that of the events taken."""
    index = len(events) - 1
    while index >= 0:
        event = events[index]
        if isinstance(event, RewindAction) and event.conversation:
            index = min(event.to_event, index - 1)
            continue
        yield event
        index -= 1


def newest(events: Sequence[Event], kind: type[E]) -> E | None:
    """Return the newest event of this kind in the current conversation; None without one."""
    return next((event for event in newest_first(events) if isinstance(event, kind)), None)


def live(events: Sequence[Event]) -> Sequence[Event]:
    """Return the current conversation in order: `events` itself if nobody ever went back."""
    if not any(isinstance(event, RewindAction) and event.conversation for event in events):
        return events
    return list(newest_first(events))[::-1]
