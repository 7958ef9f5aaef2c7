"""Which database a URL means, and what may be shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from agentcli.errors import ConfigError
from agentcli.system.homes import expanded

_HINT = "files, sqlite:///PATH or postgresql://USER@HOST/NAME"


@dataclass(frozen=True)
class Address:
    """`path` is the file of an SQLite database, None for PostgreSQL."""

    url: URL
    path: Path | None

    @property
    def shown(self) -> str:
        """For people: no password, and nothing else that stands for one."""
        if self.path is not None:
            return f"sqlite:///{self.path}"
        url = self.url
        user = f"{url.username}@" if url.username else ""
        port = f":{url.port}" if url.port else ""
        return f"postgresql://{user}{url.host or ''}{port}/{url.database or ''}"

    def masked(self, text: str) -> str:
        """`text` without the password."""
        return text.replace(self.url.password, "***") if self.url.password else text


def read_address(text: str, home: Path) -> Address:
    """What the setting says; a relative path is one in `home`. Raises ConfigError."""
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        # Its words quote the URL, which may hold a password.
        raise ConfigError("sessions.store is no URL of a database", hint=_HINT) from error
    if backend == "sqlite":
        if url.host or url.database in (None, "", ":memory:"):
            raise ConfigError("sessions.store: sqlite:/// is followed by a path", hint=_HINT)
        path = home / expanded(str(url.database))
        return Address(URL.create("sqlite+pysqlite", database=str(path)), path)
    if backend in ("postgresql", "postgres"):
        return Address(url.set(drivername="postgresql+psycopg"), None)
    raise ConfigError(f"sessions.store: there is no store of the kind {backend!r}", hint=_HINT)
