"""The one writer of a session in a database.

It takes a number one higher than any writer of the session before, and each append is made under
the condition that this is still the newest. So whoever lost the lock without knowing, as with a
connection that broke, can't write on after somebody else has begun.

That nobody begins while it is alive is up to a lock that ends with its process: in PostgreSQL an
advisory lock of the connection, beside an SQLite file one on a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import time
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock as ThreadLock
from typing import Any, Self

from sqlalchemy import Connection, func, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from agentcli.errors import SessionError
from agentcli.files.private import remove_tree
from agentcli.sessions.database.connection import Database, writing_in
from agentcli.sessions.database.rows import event_row, state_columns
from agentcli.sessions.database.schema import EVENTS, SESSIONS
from agentcli.sessions.lock import SessionLock, holder_of, in_use
from agentcli.sessions.state import State
from agentcli.sessions.store import Holder, Lock

_OURS = 0x6167656E74
"""Among the keys of advisory locks, which all programs that use a database share."""
_UNNOTICED_S = 0.5
"""So long the server may not have noticed that a process was killed."""
_PAUSE_S = 0.02
_LOCKS = text(
    "SELECT classid::bigint, objid::bigint FROM pg_locks"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""The two halves of the key of each lock."""


class Writer(Lock):
    """Of one session, from its making to `release`. Raises UsageError when another process has it,
    SessionError when there is no such session."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database = database
        self.session_id = session_id
        self._one_at_a_time = ThreadLock()
        with ExitStack() as undo, database.telling("written"):
            self._connection = database.engine.connect()
            undo.callback(self._disconnect)
            self._take(undo)
            self._number = self._register()
            undo.pop_all()

    @abstractmethod
    def _take(self, undo: ExitStack) -> None:
        """Lock it; `undo` is what lets it go again. Raises UsageError."""

    @abstractmethod
    def _let_go(self) -> None: ...

    def _require_there(self) -> None:
        """Raises SessionError where what is written could not be found again."""

    def append(self, records: list[tuple[int, bytes]], state: State) -> None:
        """In one transaction. Raises SessionError; then none of them is there, or it can't be known
        because the database went away while it was told to keep them."""
        self._require_there()
        first, count = records[0][0], len(records)
        mine = (
            (SESSIONS.c.id == self.session_id)
            & (SESSIONS.c.writer == self._number)
            & (SESSIONS.c.events == first)
        )
        step = update(SESSIONS).where(mine).values(events=first + count, **state_columns(state))
        rows = [event_row(self.session_id, event_id, body) for event_id, body in records]
        with self._one_at_a_time, self.database.telling("written"), writing_in(self._connection):
            if self._connection.execute(step).rowcount != 1:
                raise SessionError(
                    f"session {self.session_id} was taken over by another process",
                    hint=f"what this one did last is not in it; agent sessions show "
                    f"{self.session_id} shows what is",
                )
            self._connection.execute(insert(EVENTS), rows)

    def release(self) -> None:
        with suppress(SQLAlchemyError):
            self._let_go()
        self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _disconnect(self) -> None:
        """For good: what is given back may be used again, and with it goes the lock."""
        with suppress(SQLAlchemyError):
            self._connection.invalidate()
            self._connection.close()

    def _register(self) -> int:
        """The number of this writer, written down with who it is."""
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        mine = (SESSIONS.c.id == self.session_id) & (SESSIONS.c.user == self.database.user)
        taken = update(SESSIONS).where(mine)
        taken = taken.values(writer=SESSIONS.c.writer + 1, holder=json.dumps(holder))
        with writing_in(self._connection):
            if self._connection.execute(taken).rowcount != 1:
                raise SessionError(
                    f"there is no session {self.session_id} of {self.database.user} in "
                    f"{self.database.address.shown}"
                )
            return int(self._connection.scalar(select(SESSIONS.c.writer).where(mine)) or 0)


class _PostgreSQLWriter(Writer):
    def _take(self, undo: ExitStack) -> None:
        tried = select(func.pg_try_advisory_lock(_key(self.session_id)))
        deadline = time.monotonic() + _UNNOTICED_S
        while not self._connection.scalar(tried):
            self._connection.commit()
            if time.monotonic() > deadline:
                named = _named(_registered(self._connection, self.session_id))
                raise in_use(self.session_id, named)
            time.sleep(_PAUSE_S)
        self._connection.commit()

    def _let_go(self) -> None:
        self._connection.execute(select(func.pg_advisory_unlock(_key(self.session_id))))
        self._connection.commit()


class _SQLiteWriter(Writer):
    def _take(self, undo: ExitStack) -> None:
        self._file = _identity(self.database)
        folder = _lock_folder(self.database, self.session_id)
        try:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise SessionError(f"{folder} can't be made: {error.strerror}") from error
        self._lock = undo.enter_context(SessionLock(folder))

    def _require_there(self) -> None:
        # One that was removed can still be written to, and is gone with the last who has it open.
        if _identity(self.database) != self._file:
            raise SessionError(
                f"the session can't be written: {self.database.address.path} was removed or "
                "replaced while it was in use",
                hint=f"bring it back and go on: agent resume {self.session_id}",
            )

    def _let_go(self) -> None:
        self._lock.release()
        with suppress(sqlite3.Error):
            # A copy of the database's file alone then has the session.
            driver = self._connection.connection.dbapi_connection
            driver.execute("PRAGMA wal_checkpoint(PASSIVE)")  # type: ignore[union-attr]


def writer_of(database: Database, session_id: str) -> Writer:
    """Locks the session: see `Writer`."""
    kind = _PostgreSQLWriter if database.address.path is None else _SQLiteWriter
    return kind(database, session_id)


def holders_in(database: Database, session_ids: Iterable[str]) -> dict[str, Holder]:
    """The process that has each session locked at this moment, of those that are."""
    if database.address.path is not None:
        probed = ((each, holder_of(_lock_folder(database, each))) for each in session_ids)
        return {session_id: holder for session_id, holder in probed if holder is not None}
    with database.reading() as connection:
        locked = {(high << 32) + low for high, low in connection.execute(_LOCKS)}
        held = [each for each in session_ids if _key(each) % 2**64 in locked]
        wanted = select(SESSIONS.c.id, SESSIONS.c.holder).where(SESSIONS.c.id.in_(held))
        rows = connection.execute(wanted).all() if held else ()
    return {session_id: _holder(_parsed(holder)) for session_id, holder in rows}


def remove_lock(database: Database, session_id: str) -> None:
    """What is left of the lock of a session that is gone."""
    if database.address.path is not None:
        remove_tree(_lock_folder(database, session_id))


def _registered(connection: Connection, session_id: str) -> dict[str, Any]:
    holder = connection.scalar(select(SESSIONS.c.holder).where(SESSIONS.c.id == session_id))
    connection.rollback()
    return _parsed(holder)


def _parsed(holder: str | None) -> dict[str, Any]:
    try:
        named = json.loads(holder or "{}")
    except ValueError:
        return {}
    return named if isinstance(named, dict) else {}


def _holder(named: dict[str, Any]) -> Holder:
    host = str(named.get("host", "another machine"))
    return Holder(int(named.get("pid", 0)), host, host == socket.gethostname())


def _named(holder: dict[str, Any]) -> str:
    if holder.keys() >= {"pid", "host", "since"}:
        return "process {pid} on {host} since {since}".format_map(holder)
    return "another process"


def _key(session_id: str) -> int:
    """Of the advisory lock: a signed number of 64 bits."""
    digest = hashlib.sha256(f"{_OURS:x} {session_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _identity(database: Database) -> tuple[int, int] | None:
    """Of the file of an SQLite database, None if it isn't there."""
    assert database.address.path is not None
    try:
        status = database.address.path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _lock_folder(database: Database, session_id: str) -> Path:
    path = database.address.path
    assert path is not None
    return path.with_name(f"{path.name}-locks") / session_id
