"""Connects to a database of sessions by its URL, and turns its errors into messages for people."""

from __future__ import annotations

import errno
import os
import pwd
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from agentcli.errors import ConfigError, SessionError
from agentcli.sessions import INSTALL
from agentcli.sessions.database_schema import METADATA, SCHEMA, VERSION
from agentcli.sessions.folder import require_safe_place, unwritable
from agentcli.system.homes import expanded
from agentcli.workspace.private import ownership_fault

_HINT = "files, sqlite:///PATH or postgresql://USER@HOST/NAME"
_SECRET_PARAMETERS = ("password", "sslpassword")
_SHOWN_PARAMETERS = ("port", "options", "service")
"""These can select another schema or server, so without them two stores would look the same."""


@dataclass(frozen=True)
class Address:
    """Where a database is. `path` is the file of an SQLite database, None for PostgreSQL."""

    url: URL
    path: Path | None

    @property
    def shown(self) -> str:
        """The URL as shown to people and compared with others: it contains no password."""
        if self.path is not None:
            return f"sqlite:///{self.path}"
        given = {name: self._parameter(name) for name in _SHOWN_PARAMETERS}
        url = URL.create(
            "postgresql",
            username=self._parameter("user", self.url.username) or None,
            host=self._parameter("host", self.url.host) or None,
            port=self.url.port,
            database=self._parameter("dbname", self.url.database),
            query={name: value for name, value in given.items() if value},
        )
        return url.render_as_string()

    def mask(self, text: str) -> str:
        """Return `text` with the passwords of the URL replaced by ***."""
        secrets = [self.url.password, *map(self._parameter, _SECRET_PARAMETERS)]
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return text

    def _parameter(self, name: str, otherwise: str | None = "") -> str:
        """Return a parameter of the query, which takes precedence over the rest of the URL."""
        value = self.url.query.get(name, otherwise or "")
        return value if isinstance(value, str) else ",".join(value)


def parse_address(text: str, home: Path) -> Address:
    """Parse the setting `sessions.store`. A relative path is one in `home`. Raises ConfigError."""
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        # The message of `error` quotes the URL, which may contain a password.
        raise ConfigError("sessions.store is no URL of a database", hint=_HINT) from error
    if backend == "sqlite":
        if url.host or url.database in (None, "", ":memory:"):
            raise ConfigError("sessions.store: sqlite:/// is followed by a path", hint=_HINT)
        if url.query:
            parameters = ", ".join(url.query)
            message = f"sessions.store: sqlite:/// takes no parameters: {parameters}"
            raise ConfigError(message, hint=_HINT)
        path = home / expanded(str(url.database))
        return Address(URL.create("sqlite+pysqlite", database=str(path)), path)
    if backend not in ("postgresql", "postgres"):
        raise ConfigError(f"sessions.store: there is no store of the kind {backend!r}", hint=_HINT)
    if "@" in (url.host or ""):
        # What precedes the last @ is the end of a password, and would be shown as a host.
        raise ConfigError(
            "sessions.store: its password contains an @, which must be written as %40",
            hint="or leave the password to PGPASSWORD or ~/.pgpass",
        )
    return Address(url.set(drivername="postgresql+psycopg"), None)


_CONNECT_S = 10
_LOCK_TIMEOUT_S = 15
"""How long to wait for another transaction."""
_STATEMENT_TIMEOUT_S = 300
_CREATE_TABLES_KEY = 0x6167656E74
"""Key of the advisory lock of the process that creates the tables."""
_CONNECT_ARGUMENTS = {
    "connect_timeout": _CONNECT_S,
    "application_name": "agent",
    # Notice a server that has gone without closing the connection.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * _LOCK_TIMEOUT_S,
}
_SESSION_SETTINGS = f"""
SELECT set_config('lock_timeout', '{_LOCK_TIMEOUT_S}s', false),
       set_config('statement_timeout', '{_STATEMENT_TIMEOUT_S}s', false),
       set_config('synchronous_commit',
           CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
           ELSE current_setting('synchronous_commit') END, false)
"""
"""`synchronous_commit`: what is committed is on disk, whatever the default of the server is."""
_AS_IT_IS = str
"""What is stored is JSON text already, as an event's file has it."""
_SEE_SETTING = "see sessions.store: agent config show --origin"
_SEE_POSTGRESQL = f"{_SEE_SETTING}; the password can be in PGPASSWORD or ~/.pgpass"
_GO_ON_LATER = "nothing recorded before is lost; go on when the database is there again"
_REMEDIES: dict[int | str | None, str] = {
    "42501": "this role needs SELECT, INSERT, UPDATE and DELETE on the tables; better, give each "
    "person a database or schema of their own",
    "3F000": "create the schema that search_path names, and let this role use and create in it",
    sqlite3.SQLITE_BUSY: "another program is writing to it; go on when that has finished",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for you",
}
"""What to do about an error, by SQLSTATE or the code of SQLite."""


class Database:
    """The database at an address. Its tables are created if there are none. Raises ConfigError when
    it can't be used, SessionError when its tables were made by another version of agent."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.engine = _postgresql(address) if address.path is None else _sqlite(address)
        try:
            with self.engine.connect() as connection:
                self._prepare(connection)
                self.user = _user(connection, address)
            if address.path is not None:
                # While a connection is open, all files of the database exist, and the sandbox can
                # hide them from commands.
                self._open = self.engine.connect()
                _schema_version(self._open)
        except SQLAlchemyError as error:
            raise ConfigError(
                f"the sessions in {address.shown} can't be reached: {self._reason(error)}",
                hint=_remedy(error, _SEE_POSTGRESQL if address.path is None else _SEE_SETTING),
            ) from error

    @property
    def files(self) -> Sequence[Path]:
        """The files of the database on this machine: none for PostgreSQL."""
        path = self.address.path
        endings = ("", "-wal", "-shm", "-locks")
        return [path.with_name(path.name + ending) for ending in endings] if path else ()

    def close(self) -> None:
        if self.address.path is not None:
            self._open.close()
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection to read with. Errors of the block are raised as SessionError."""
        with self.translating_errors("read"), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection for one transaction. Errors of the block are raised as SessionError,
        and then nothing is changed."""
        with (
            self.translating_errors("written"),
            self.engine.connect() as connection,
            write_transaction(connection),
        ):
            yield connection

    @contextmanager
    def translating_errors(self, verb: str) -> Iterator[None]:
        """Raise database errors of the block as a SessionError. `verb` is what can't be done to the
        session: `read` or `written`."""
        try:
            yield
        except IntegrityError as error:
            raise SessionError(
                f"the session can't be {verb}: what was to follow is there already "
                f"({self.address.shown})",
                hint="another program wrote to this session; fork it to go on",
            ) from error
        except SQLAlchemyError as error:
            if self.address.path is not None and _error_code(error) == sqlite3.SQLITE_FULL:
                full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                raise unwritable(self.address.path, full) from error
            raise SessionError(
                f"the session can't be {verb}: {self._reason(error)} ({self.address.shown})",
                hint=_remedy(error, _GO_ON_LATER),
            ) from error

    def _prepare(self, connection: Connection) -> None:
        """Create the tables if there are none, and check their version."""
        version = _schema_version(connection)
        if version is None:
            with write_transaction(connection):
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_CREATE_TABLES_KEY)))
                # Another process may have created them meanwhile.
                if (version := _schema_version(connection, in_transaction=True)) is None:
                    names = set(inspect(connection).get_table_names())
                    if taken := sorted({"sessions", "events"} & names):
                        raise ConfigError(
                            f"{self.address.shown} has tables that are not agent's: "
                            f"{', '.join(taken)}",
                            hint="name a database of its own in sessions.store",
                        )
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

    def _reason(self, error: SQLAlchemyError) -> str:
        """Return the first line of the driver's message, without passwords."""
        said = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return self.address.mask(lines[0] if lines else type(error).__name__)


@contextmanager
def write_transaction(connection: Connection) -> Iterator[None]:
    """Run the block in a transaction. In SQLite it takes the write lock first, so that nobody
    changes what it has read."""
    connection.execution_options(agent_writes=True)
    try:
        with connection.begin():
            yield
    finally:
        if not connection.closed:
            connection.execution_options(agent_writes=False)


def _schema_version(connection: Connection, *, in_transaction: bool = False) -> int | None:
    """Return the version of the tables, None if there are none."""
    version = None
    if inspect(connection).has_table(SCHEMA.name):
        version = connection.scalar(select(func.max(SCHEMA.c.version)))
    if not in_transaction:
        connection.rollback()
    return version


def _user(connection: Connection, address: Address) -> str:
    """Return the owner of the sessions: the role at the server, or the user of the system."""
    if address.path is None:
        return str(connection.scalar(select(func.current_user())))
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _error_code(error: SQLAlchemyError) -> int | str | None:
    """Return the code of SQLite, or the SQLSTATE of PostgreSQL."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    code = getattr(cause, "sqlite_errorcode", None)
    # The low byte is the code, the rest distinguishes cases of it.
    return code & 0xFF if code is not None else getattr(cause, "sqlstate", None)


def _remedy(error: SQLAlchemyError, otherwise: str) -> str:
    """Return what the user can do about an error."""
    return _REMEDIES.get(_error_code(error), otherwise)


def _postgresql(address: Address) -> Engine:
    given = address.url.query
    try:
        engine = create_engine(
            address.url,
            pool_pre_ping=True,
            json_serializer=_AS_IT_IS,
            connect_args={
                key: value for key, value in _CONNECT_ARGUMENTS.items() if key not in given
            },
            hide_parameters=True,
        )
    except ImportError as missing:
        message = "sessions.store names a PostgreSQL database, and psycopg can't be used"
        raise ConfigError(f"{message}: {missing}", hint=INSTALL) from missing

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: object) -> None:
        connection.execute(_SESSION_SETTINGS)
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
            hint=_SEE_SETTING,
        ) from error
    if fault:
        raise SessionError(f"{path} can't be trusted: {fault}")
    engine = create_engine(
        address.url,
        poolclass=NullPool,
        json_serializer=_AS_IT_IS,
        # Each session has its own connection, but other threads may read from it.
        connect_args={
            "timeout": _LOCK_TIMEOUT_S,
            "check_same_thread": False,
            "isolation_level": None,
        },
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
        # A transaction that reads before it writes fails if another one wrote in between.
        writes = connection.get_execution_options().get("agent_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
