"""The current conversation after the user went back in it, and the replies restored from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from agentcli.events.actions import MessageAction, RewindAction
from agentcli.events.base import Event
from agentcli.events.observations import ErrorObservation, ReplyDiscardedObservation
from agentcli.messages import FinishReason, Reply, ToolCall, Usage

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


RECORDING = "recording"
"""The key in the first line of a recording; its value is the version of the format."""
RECORDING_FORMAT = 1


def is_newer(first_line: Mapping[str, Any]) -> bool:
    """Whether a recording with this first line has a format unknown to this version."""
    number = first_line[RECORDING]
    return type(number) is int and number > RECORDING_FORMAT


def recorded_replies(events: Sequence[Event]) -> list[Reply]:
    """Return each complete reply of the current conversation, in order."""
    torn = {event.reply_id for event in events if isinstance(event, ReplyDiscardedObservation)}
    said = [event for event in live(events) if event.reply and event.reply.id not in torn]
    groups = groupby(said, key=lambda event: event.reply and event.reply.id)
    return [_reply(list(group)) for _, group in groups]


def _reply(group: Sequence[Event]) -> Reply:
    texts = [event for event in group if isinstance(event, MessageAction)]
    calls = [event.tool_call_metadata for event in group if event.tool_call_metadata]
    faults = [event for event in group if isinstance(event, ErrorObservation)]
    metrics = group[0].llm_metrics
    return Reply(
        text="".join(event.content for event in texts),
        tool_calls=tuple(
            ToolCall(call.tool_call_id, call.function_name, call.raw_arguments) for call in calls
        ),
        finish_reason=_ending(faults, bool(calls)),
        usage=Usage.of(dict(metrics or ())),
        model=metrics.model if metrics else "scripted",
        response_id=group[0].response_id or "",
        reasoning="".join(event.reasoning for event in texts),
    )


def _ending(faults: Sequence[ErrorObservation], has_calls: bool) -> FinishReason:
    """Derive why the reply ended. An error among its events means that it ended badly; in which
    way, only the error's text for the model says."""
    if any(fault.error_id == "refused_reply" for fault in faults):
        return FinishReason.REFUSAL
    if any("cut off" in fault.content for fault in faults):
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
