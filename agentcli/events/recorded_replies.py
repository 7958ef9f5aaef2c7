"""Restores a model's replies from the events of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from agentcli.events.actions import MessageAction
from agentcli.events.base import Event
from agentcli.events.live import live
from agentcli.events.observations import ErrorObservation, ReplyDiscardedObservation
from agentcli.messages import FinishReason, Reply, ToolCall, Usage

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
