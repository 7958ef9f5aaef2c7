"""Connections to a database, and what goes wrong with them in words."""

from __future__ import annotations

import errno
import os
import pwd
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, inspect, select
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from agentcli.errors import ConfigError, SessionError
from agentcli.files.private import ownership_fault
from agentcli.sessions.database.address import Address
from agentcli.sessions.database.schema import METADATA, SCHEMA, VERSION
from agentcli.sessions.manage.ownership import require_safe_place
from agentcli.sessions.store_selection import INSTALL
from agentcli.sessions.write_faults import unwritable

_CONNECT_S = 10
_PATIENCE_S = 15
"""How long to wait for another transaction."""
_LONGEST_STATEMENT_S = 300
_MAKING_TABLES = 0x6167656E74
"""The lock of whoever makes them."""
_ON_THE_NETWORK = {
    "connect_timeout": _CONNECT_S,
    "application_name": "agent",
    # A server that is gone without a word is noticed.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * _PATIENCE_S,
}
_OF_A_CONNECTION = f"""
SELECT set_config('lock_timeout', '{_PATIENCE_S}s', false),
       set_config('statement_timeout', '{_LONGEST_STATEMENT_S}s', false),
       set_config('synchronous_commit',
           CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
           ELSE current_setting('synchronous_commit') END, false)
"""
"""What is committed is on the disk, whatever the server does for others."""


class Database:
    """The database at an address, its tables made if there are none. Raises ConfigError when it
    can't be used, SessionError when it is of another version."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.engine = _postgresql(address) if address.path is None else _sqlite(address)
        try:
            with self.engine.connect() as connection:
                self._prepare(connection)
                self.user = _user(connection, address)
            if address.path is not None:
                # While one is open all files of the database are there, to be kept from commands.
                self._open = self.engine.connect()
                _version(self._open)
        except SQLAlchemyError as error:
            raise ConfigError(
                f"the sessions in {address.shown} can't be reached: {self._reason(error)}",
                hint="see sessions.store: agent config show --origin; the password can be in "
                "PGPASSWORD or ~/.pgpass"
                if address.path is None
                else "see sessions.store: agent config show --origin",
            ) from error

    @property
    def files(self) -> Sequence[Path]:
        """What it consists of on this machine."""
        path = self.address.path
        endings = ("", "-wal", "-shm", "-locks")
        return [path.with_name(path.name + ending) for ending in endings] if path else ()

    def close(self) -> None:
        if self.address.path is not None:
            self._open.close()
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Raises SessionError for whatever goes wrong."""
        with self.telling("read"), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """In one transaction. Raises SessionError for whatever goes wrong; then nothing is
        changed."""
        with (
            self.telling("written"),
            self.engine.connect() as connection,
            writing_in(connection),
        ):
            yield connection

    @contextmanager
    def telling(self, what: str) -> Iterator[None]:
        """Turns the errors of the block into a SessionError that says what can't be done."""
        try:
            yield
        except IntegrityError as error:
            raise SessionError(
                f"the session can't be {what}: what was to follow is there already "
                f"({self.address.shown})",
                hint="another program wrote to this session; fork it to go on",
            ) from error
        except SQLAlchemyError as error:
            if self.address.path is not None and _code(error) == sqlite3.SQLITE_FULL:
                full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                raise unwritable(self.address.path, full) from error
            raise SessionError(
                f"the session can't be {what}: {self._reason(error)} ({self.address.shown})",
                hint="nothing recorded before is lost; go on when the database is there again",
            ) from error

    def _prepare(self, connection: Connection) -> None:
        version = _version(connection)
        if version is None:
            with writing_in(connection):
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_MAKING_TABLES)))
                # Another process may have been quicker.
                if (version := _version(connection, in_transaction=True)) is None:
                    self._require_free(connection)
                    METADATA.create_all(connection)
                    connection.execute(insert(SCHEMA).values(version=VERSION))
                    version = VERSION
        if version != VERSION:
            age = "a newer version of agent" if version > VERSION else "an older version of agent"
            raise SessionError(
                f"the tables in {self.address.shown} were made by {age} "
                f"(version {version}, this one has {VERSION})",
                hint="upgrade agent"
                if version > VERSION
                else "copy the sessions out of it with "
                "that version: agent sessions copy --all --to files",
            )

    def _require_free(self, connection: Connection) -> None:
        """Raises ConfigError where there are tables of something else."""
        taken = sorted({"sessions", "events"} & set(inspect(connection).get_table_names()))
        if taken:
            raise ConfigError(
                f"{self.address.shown} has tables that are not agent's: {', '.join(taken)}",
                hint="name a database of its own in sessions.store",
            )

    def _reason(self, error: SQLAlchemyError) -> str:
        """What the driver said, in a line, without the password."""
        said = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return self.address.masked(lines[0] if lines else type(error).__name__)


@contextmanager
def writing_in(connection: Connection) -> Iterator[None]:
    """A transaction in which nobody else writes what it has read."""
    connection.execution_options(agent_writes=True)
    try:
        with connection.begin():
            yield
    finally:
        if not connection.closed:
            connection.execution_options(agent_writes=False)


def _version(connection: Connection, *, in_transaction: bool = False) -> int | None:
    """That of the tables, None if there are none."""
    version = None
    if inspect(connection).has_table(SCHEMA.name):
        version = connection.scalar(select(func.max(SCHEMA.c.version)))
    if not in_transaction:
        connection.rollback()
    return version


def _user(connection: Connection, address: Address) -> str:
    """Whose sessions these are: of a server the role that it knows us by."""
    if address.path is None:
        return str(connection.scalar(select(func.current_user())))
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _code(error: SQLAlchemyError) -> int | None:
    cause = error.orig if isinstance(error, DBAPIError) else None
    return getattr(cause, "sqlite_errorcode", None)


def _as_it_is(value: str) -> str:
    """Events come as the JSON that a file of them would have."""
    return value


def _postgresql(address: Address) -> Engine:
    given = address.url.query
    try:
        engine = create_engine(
            address.url,
            pool_pre_ping=True,
            json_serializer=_as_it_is,
            connect_args={key: value for key, value in _ON_THE_NETWORK.items() if key not in given},
            hide_parameters=True,
        )
    except ImportError as missing:
        told = "sessions.store names a PostgreSQL database, and psycopg can't be used"
        raise ConfigError(f"{told}: {missing}", hint=INSTALL) from missing

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: object) -> None:
        connection.execute(_OF_A_CONNECTION)
        connection.commit()

    return engine


def _sqlite(address: Address) -> Engine:
    assert address.path is not None
    path = address.path
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_safe_place(path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        try:
            fault = ownership_fault(os.fstat(fd))
        finally:
            os.close(fd)
    except OSError as error:
        raise ConfigError(
            f"the sessions in {address.shown} can't be reached: {error.strerror}",
            hint="see sessions.store: agent config show --origin",
        ) from error
    if fault:
        raise SessionError(f"{path} can't be trusted: {fault}")
    engine = create_engine(
        address.url,
        poolclass=NullPool,
        json_serializer=_as_it_is,
        # Sessions that work side by side have a connection each, which other threads may read from.
        connect_args={"timeout": _PATIENCE_S, "check_same_thread": False, "isolation_level": None},
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # One that reads first and writes then could find that another wrote in between.
        writes = connection.get_execution_options().get("agent_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
