"""The tables: one row per session, one per event.

Whatever a process does, no event is stored twice and none is left out: `(session_id,
sequence_number)` is unique, and events are inserted in the transaction that raises the `events` of
their session by their number, which only the process with the newest `writer` number can do.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

from agentcli.events.base import ACTIONS, OBSERVATIONS
from agentcli.events.texts import compact_json, json_object
from agentcli.sessions.state import State, as_plain, from_plain

VERSION = 1

METADATA = MetaData()
_Moment = DateTime(timezone=True).with_variant(String(40), "sqlite")
"""SQLite has no such type: text in ISO 8601 with its zone."""
_Number = BigInteger().with_variant(Integer, "sqlite")

SCHEMA = Table("agent_schema", METADATA, Column("version", Integer, primary_key=True))
SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id", String(120), primary_key=True),
    Column("user", String(120), nullable=False, index=True),
    Column("agent", String(120), nullable=False),
    Column("iteration", Integer, nullable=False),
    Column("state", String(40), nullable=False),
    Column("created", _Moment),
    Column("updated", _Moment),
    Column("metadata", JSON, nullable=False),
    Column("events", Integer, nullable=False),
    Column("writer", _Number, nullable=False),
    Column("holder", String(400)),
)
"""`metadata` is the state folded from the events, `events` their number. `writer` counts the
processes that have opened the session for writing; `holder` says which was the last, as JSON."""
EVENTS = Table(
    "events",
    METADATA,
    Column("event_id", _Number, primary_key=True),
    Column(
        "session_id", String(120), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False
    ),
    Column("sequence_number", Integer, nullable=False),
    Column("timestamp", _Moment, nullable=False),
    Column("source", String(40), nullable=False),
    Column("event_class", String(200), nullable=False),
    Column("event_data", JSON, nullable=False),
    Column("cause", Integer),
    UniqueConstraint("session_id", "sequence_number"),
    sqlite_autoincrement=True,
)
"""`event_data` is the whole event, as its file would have it; the other columns repeat parts of it
for queries. `sequence_number` is its number in the session, `event_id` its number in the
database."""


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
