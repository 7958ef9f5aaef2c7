"""Begins a new session with what was said and done elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentcli.errors import UsageError
from agentcli.events import Action, Event, Observation, event_from_dict
from agentcli.events.actions import MessageAction
from agentcli.events.observations import DecisionObservation
from agentcli.sessions.session import SessionLog


def earlier_conversation(given: Sequence[Event | Mapping[str, Any]]) -> list[Event]:
    """Return the messages, and the tool calls with their observations; everything else belongs to
    the session that it comes from. Raises UsageError for what is no event, and for a call without
    its observation."""
    return list(_kept([_event(each, at) for at, each in enumerate(given)]))


def record_earlier(session: SessionLog, kept: Sequence[Event]) -> None:
    """Record what `earlier_conversation` returned, without its costs, which were paid before."""
    new_ids = {event.id: id for id, event in enumerate(kept, len(session.events))}
    totals = Counter(event.reply.id for event in kept if event.reply is not None)
    seen: Counter[str] = Counter()
    recorded = []
    for event in kept:
        cause = None if event.cause is None else new_ids[event.cause]
        reply = event.reply
        if reply is not None:
            place = {"index": seen[reply.id], "total": totals[reply.id]}
            seen[reply.id] += 1
            reply = reply.model_copy(update=place)
        changes = {"cause": cause, "reply": reply, "llm_metrics": None}
        recorded.append(event.model_copy(update=changes))
    if recorded:
        session.emit_group(recorded)


def _event(given: Event | Mapping[str, Any], at: int) -> Event:
    if isinstance(given, Event):
        return given
    try:
        return event_from_dict(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"initial_events[{at}] is no event: {error}") from error


def _kept(events: Sequence[Event]) -> Iterator[Event]:
    answered = {e.cause for e in events if _is_answer(e)}
    calls = set()
    for at, event in enumerate(events):
        if isinstance(event, MessageAction):
            yield event
        elif isinstance(event, Action) and event.tool_call_metadata is not None:
            if event.id < 0 or event.id not in answered:
                told = f"initial_events[{at}], a call of {event.tool_call_metadata.function_name}"
                raise UsageError(f"{told}, has no observation that names it as its cause")
            calls.add(event.id)
            yield event
        elif _is_answer(event) and event.cause in calls:
            yield event


def _is_answer(event: Event) -> bool:
    decision = isinstance(event, DecisionObservation)
    return isinstance(event, Observation) and event.cause is not None and not decision
