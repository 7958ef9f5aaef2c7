"""Converts events and states to columns, and back."""

from __future__ import annotations

import json
from typing import Any

from agentcli.events.base import ACTIONS, OBSERVATIONS
from agentcli.events.json_text import compact_json, json_object
from agentcli.sessions.state import State, as_plain, from_plain

_LONGEST_NAME = 200
_NAMES = {"requirement": "RequirementObservation"}
"""How a class that was renamed is called in the database, by its kind."""


def event_row(session_id: str, event_id: int, body: bytes) -> dict[str, Any]:
    """Return the row of the event whose JSON is `body`."""
    record = json.loads(body)
    if "action" in record:
        known, kind = ACTIONS.get(record["action"]), record["action"]
    else:
        known, kind = OBSERVATIONS.get(record["observation"]), record["observation"]
    name = _NAMES.get(known.kind, known.__name__) if known else str(kind)
    return {
        "session_id": session_id,
        "sequence_number": event_id,
        "timestamp": record["timestamp"],
        "source": record.get("source", ""),
        "event_class": name[:_LONGEST_NAME],
        "event_data": body.decode(),
        "cause": record.get("cause"),
    }


def state_columns(state: State) -> dict[str, Any]:
    """Return the columns of a session that come from its state."""
    return {
        "agent": state.agent_name,
        "iteration": state.iteration,
        "state": state.agent_state.value,
        "created": state.created_at or None,
        "updated": state.updated_at or None,
        "metadata": compact_json(as_plain(state)).decode(),
    }


def state_from_row(metadata: str, events: int) -> State | None:
    """Return the state in the row of a session, None if it is damaged or is not the state after
    that number of events."""
    try:
        state = from_plain(json.loads(metadata))
    except (ValueError, RecursionError):
        return None
    return state if state is not None and state.end_id == events - 1 else None


def parse_event(event_data: str, event_id: int) -> dict[str, Any] | None:
    """Return the JSON object of event `event_id`, None if it is damaged."""
    record = json_object(event_data)
    return record if record and record.get("id") == event_id else None
