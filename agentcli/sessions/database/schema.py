"""The tables: one row a session, one an event.

Whatever a process does, no event is there twice, and none follows but the next: `(session_id,
sequence_number)` is unique, and an event is inserted in the transaction that moves the row of its
session from `events` to `events + n` for the holder of the newest `writer` number.
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
"""ISO 8601 with its zone as text where there is no such type."""
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
processes that have opened the session to write, `holder` names the last of them, in JSON."""
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
"""`event_data` is the whole event, as a file of it would be; the other columns repeat parts of it
for queries. `sequence_number` is its number in the session, `event_id` its own in the database."""
