"""Provides stores for tests: files, SQLite, and a PostgreSQL server of their own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("files", "sqlite", "postgresql")
PASSWORD = "open-sesame-4711"
_SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
max_connections = 50
"""
_WHO = """
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


class PostgreSQL:
    """A server on loopback in the temporary `folder`; under root it runs as an unprivileged user.
    Unless it is `durable`, a crash of the machine may lose data, a crash of a client never."""

    def __init__(self, programs: Path, folder: Path, *, durable: bool = False) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._rights = _rights()
        self._numbers = itertools.count()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if self._rights:
            os.chown(folder, self._rights["user"], self._rights["group"])
        self._run("initdb", "-U", "agent", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        settings = _SETTINGS.format(port=self.port, folder=folder)
        settings += "" if durable else "fsync = off\n"
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(settings)
        (self._data / "pg_hba.conf").write_text(_WHO)

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "start")

    def stop(self) -> None:
        """Stop the server at once, as if its machine had failed."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def database(self) -> str:
        """Create a schema; return its URL as a store of sessions."""
        schema = f"test_{next(self._numbers)}"
        self.execute(f"CREATE SCHEMA {schema}")
        return f"{self.url}?options=-csearch_path%3D{schema}"

    @property
    def url(self) -> str:
        return f"postgresql://agent@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """Process id of the server's main process."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", str(self._data), *arguments],
            check=True,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            **self._rights,
        )


def postgresql_programs() -> Path | None:
    """Return the folder of the server's programs, None if it is not installed."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if named := shutil.which("initdb"):
        found.append(Path(named).parent)
    return max(found, default=None)


@contextmanager
def postgresql_server(programs: Path, *, durable: bool = False) -> Iterator[PostgreSQL]:
    folder = Path(tempfile.mkdtemp(prefix="agent-postgresql-"))
    try:
        server = PostgreSQL(programs, folder, durable=durable)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def places(kind: str) -> Iterator[Callable[[], str]]:
    """Yield a function that creates stores of this kind, one for each home. Raises LookupError if
    PostgreSQL is needed and not installed."""
    if kind != "postgresql":
        yield lambda: {"files": "files", "sqlite": "sqlite:///sessions.db"}[kind]
        return
    programs = postgresql_programs()
    if programs is None:
        raise LookupError("PostgreSQL is not installed")
    with postgresql_server(programs) as server:
        yield server.database


def _rights() -> dict[str, int]:
    """Return the user to run the server as, because it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    somebody = pwd.getpwnam("nobody")
    return {"user": somebody.pw_uid, "group": somebody.pw_gid}
