"""The tables: one row per session, one per event.

Whatever a process does, no event is stored twice and none is left out: `(session_id,
sequence_number)` is unique, and events are inserted in the transaction that raises the `events` of
their session by their number, which only the process with the newest `writer` number can do.
"""

from __future__ import annotations

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
