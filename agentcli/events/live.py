"""Which events are part of the conversation as it stands, after a person went back in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentcli.events.actions import RewindAction
from agentcli.events.base import Event


def newest_first(events: Sequence[Event]) -> Iterator[Event]:
    """The conversation backwards; `events` are all of a session, from 0. Costs what is taken."""
    index = len(events) - 1
    while index >= 0:
        event = events[index]
        if isinstance(event, RewindAction) and event.conversation:
            index = min(event.to_event, index - 1)
            continue
        yield event
        index -= 1


def live(events: Sequence[Event]) -> Sequence[Event]:
    """The conversation in order: `events` themselves if nobody ever went back."""
    if not any(isinstance(event, RewindAction) and event.conversation for event in events):
        return events
    return list(newest_first(events))[::-1]
