"""Parses the URL of a database, and says what of it may be shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from agentcli.errors import ConfigError
from agentcli.system.homes import expanded

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
        return _sqlite_address(url, home)
    if backend not in ("postgresql", "postgres"):
        raise ConfigError(f"sessions.store: there is no store of the kind {backend!r}", hint=_HINT)
    if "@" in (url.host or ""):
        # What precedes the last @ is the end of a password, and would be shown as a host.
        raise ConfigError(
            "sessions.store: its password contains an @, which must be written as %40",
            hint="or leave the password to PGPASSWORD or ~/.pgpass",
        )
    return Address(url.set(drivername="postgresql+psycopg"), None)


def _sqlite_address(url: URL, home: Path) -> Address:
    if url.host or url.database in (None, "", ":memory:"):
        raise ConfigError("sessions.store: sqlite:/// is followed by a path", hint=_HINT)
    if url.query:
        told = f"sessions.store: sqlite:/// takes no parameters: {', '.join(url.query)}"
        raise ConfigError(told, hint=_HINT)
    path = home / expanded(str(url.database))
    return Address(URL.create("sqlite+pysqlite", database=str(path)), path)
