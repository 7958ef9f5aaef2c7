"""Gives one process at a time the right to write to a session in a database.

A lock that ends with its process keeps others out: in PostgreSQL an advisory lock of the
connection, for SQLite a lock on a file beside the database. Besides, each writer takes a number
higher than those before it, and an append succeeds only while that number is the highest. So a
process that has lost its lock without noticing, as when its connection broke, can't write after
another one has taken over.
"""

from __future__ import annotations

import hashlib
import socket
import sqlite3
import time
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock as ThreadLock
from typing import Any

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from agentcli.errors import SessionError
from agentcli.sessions.database_connection import Database, write_transaction
from agentcli.sessions.database_schema import EVENTS, SESSIONS, event_row, state_columns
from agentcli.sessions.state import State
from agentcli.sessions.store import (
    Holder,
    Lock,
    SessionLock,
    holders_of,
    in_use,
    parse_holder,
    this_process,
)
from agentcli.workspace.private import remove_tree

_LOCK_NAMESPACE = 0x6167656E74
"""Hashed into our keys, because all programs that use a database share its advisory locks."""
_STALE_LOCK_S = 0.5
"""How long the server may take to notice that a process was killed."""
_RETRY_S = 0.02
_SELECT_LOCKS = text(
    "SELECT classid::bigint, objid::bigint FROM pg_locks"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""The two halves of the key of each lock."""


class Writer(Lock):
    """Writes to one session, which stays locked until `release`. Raises UsageError when another
    process has the lock, SessionError when there is no such session."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database = database
        self.session_id = session_id
        self._one_at_a_time = ThreadLock()
        with ExitStack() as undo, database.translating_errors("written"):
            self._connection = database.engine.connect()
            undo.callback(self._disconnect)
            self._acquire(undo)
            self._number = self._register()
            undo.pop_all()

    @abstractmethod
    def _acquire(self, undo: ExitStack) -> None:
        """Lock the session; `undo` releases what was acquired if anything fails. Raises
        UsageError."""

    @abstractmethod
    def _release_lock(self) -> None: ...

    def _require_same_file(self) -> None:
        """Raise SessionError if what is written could not be found again."""

    def append(self, records: list[tuple[int, bytes]], state: State) -> None:
        """Store events in one transaction. After a SessionError none of them is stored; only if the
        database went away during the commit, all of them may be."""
        self._require_same_file()
        first, count = records[0][0], len(records)
        mine = (
            (SESSIONS.c.id == self.session_id)
            & (SESSIONS.c.writer == self._number)
            & (SESSIONS.c.events == first)
        )
        advance = update(SESSIONS).where(mine).values(events=first + count, **state_columns(state))
        rows = [event_row(self.session_id, event_id, body) for event_id, body in records]
        with (
            self._one_at_a_time,
            self.database.translating_errors("written"),
            write_transaction(self._connection),
        ):
            if self._connection.execute(advance).rowcount != 1:
                raise SessionError(
                    f"session {self.session_id} was taken over by another process",
                    hint=f"what this one did last is not in it; agent sessions show "
                    f"{self.session_id} shows what is",
                )
            self._connection.execute(insert(EVENTS), rows)

    def release(self) -> None:
        with suppress(SQLAlchemyError):
            self._release_lock()
        self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection. It must not return to the pool, where it would keep the lock."""
        with suppress(SQLAlchemyError):
            self._connection.invalidate()
            self._connection.close()

    def _register(self) -> int:
        """Record this process as the newest writer; return its number."""
        mine = (SESSIONS.c.id == self.session_id) & (SESSIONS.c.user == self.database.user)
        taken = update(SESSIONS).where(mine)
        taken = taken.values(writer=SESSIONS.c.writer + 1, holder=this_process())
        with write_transaction(self._connection):
            if self._connection.execute(taken).rowcount != 1:
                raise SessionError(
                    f"there is no session {self.session_id} of {self.database.user} in "
                    f"{self.database.address.shown}"
                )
            return int(self._connection.scalar(select(SESSIONS.c.writer).where(mine)) or 0)


class _PostgreSQLWriter(Writer):
    def _acquire(self, undo: ExitStack) -> None:
        tried = select(func.pg_try_advisory_lock(_key(self.session_id)))
        deadline = time.monotonic() + _STALE_LOCK_S
        while not self._connection.scalar(tried):
            self._connection.commit()
            if time.monotonic() > deadline:
                wanted = select(SESSIONS.c.holder).where(SESSIONS.c.id == self.session_id)
                raise in_use(self.session_id, parse_holder(self._connection.scalar(wanted)))
            time.sleep(_RETRY_S)
        self._connection.commit()

    def _release_lock(self) -> None:
        self._connection.execute(select(func.pg_advisory_unlock(_key(self.session_id))))
        self._connection.commit()


class _SQLiteWriter(Writer):
    def _acquire(self, undo: ExitStack) -> None:
        self._file = _identity(self.database)
        folder = _lock_folder(self.database) / self.session_id
        try:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise SessionError(f"{folder} can't be made: {error.strerror}") from error
        self._lock = undo.enter_context(SessionLock(folder))

    def _require_same_file(self) -> None:
        # A removed file can still be written to; it vanishes when the last process closes it.
        if _identity(self.database) != self._file:
            raise SessionError(
                f"the session can't be written: {self.database.address.path} was removed or "
                "replaced while it was in use",
                hint=f"bring it back and go on: agent resume {self.session_id}",
            )

    def _release_lock(self) -> None:
        self._lock.release()
        with suppress(sqlite3.Error):
            # So that a copy of the database's file alone contains the session.
            driver = self._connection.connection.dbapi_connection
            driver.execute("PRAGMA wal_checkpoint(PASSIVE)")  # type: ignore[union-attr]


def open_writer(database: Database, session_id: str) -> Writer:
    """Lock a session for writing: see `Writer`."""
    kind = _PostgreSQLWriter if database.address.path is None else _SQLiteWriter
    return kind(database, session_id)


def lock_holders(database: Database, session_ids: Iterable[str]) -> dict[str, Holder]:
    """Return the process that holds the lock, for each of these sessions that is locked now."""
    if database.address.path is not None:
        return holders_of(_lock_folder(database), session_ids)
    with database.reading() as connection:
        locked = {(high << 32) + low for high, low in connection.execute(_SELECT_LOCKS)}
        held = [each for each in session_ids if _key(each) % 2**64 in locked]
        wanted = select(SESSIONS.c.id, SESSIONS.c.holder).where(SESSIONS.c.id.in_(held))
        rows = connection.execute(wanted).all() if held else ()
    return {session_id: _holder(parse_holder(holder)) for session_id, holder in rows}


def remove_lock(database: Database, session_id: str) -> None:
    """Remove what is left of the lock of a removed session."""
    if database.address.path is not None:
        remove_tree(_lock_folder(database) / session_id)


def _holder(named: dict[str, Any]) -> Holder:
    host = str(named.get("host", "another machine"))
    return Holder(int(named.get("pid", 0)), host, host == socket.gethostname())


def _key(session_id: str) -> int:
    """Return the key of the session's advisory lock, a signed 64-bit number."""
    digest = hashlib.sha256(f"{_LOCK_NAMESPACE:x} {session_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _identity(database: Database) -> tuple[int, int] | None:
    """Return device and inode of the file of an SQLite database, None if it does not exist."""
    assert database.address.path is not None
    try:
        status = database.address.path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _lock_folder(database: Database) -> Path:
    path = database.address.path
    assert path is not None
    return path.with_name(f"{path.name}-locks")
