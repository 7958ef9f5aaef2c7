"""Where the sessions of a home are: in files there, unless the settings name a database.

This is the only entrance: code that reads or writes sessions asks here for the `Library` of a home
or the `Store` of a session, and need not know which kind it gets.
"""

from __future__ import annotations

from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.sessions import FILES, INSTALL, selected_store
from agentcli.sessions.file_store import SESSIONS, FileLibrary, FileStore
from agentcli.sessions.store import Library, Store

_known: dict[tuple[Path, str], Library] = {}


def library_of(home: Path) -> Library:
    """Return the library of `home`. Raises ConfigError for a database that can't be used."""
    return library_at(home, selected_store(home))


def library_at(home: Path, place: str) -> Library:
    """Return the library of the sessions of `home` in `place`: `files`, or the URL of a database.
    Raises ConfigError."""
    key = (home, place)
    if key not in _known:
        _known[key] = FileLibrary(home) if place == FILES else _database_library(home, place)
    return _known[key]


def close_libraries() -> None:
    """Close all open libraries, because a forked process must not share a database connection.
    Either process opens them again when it needs them."""
    while _known:
        _known.popitem()[1].close()


def store_of(folder: Path) -> Store:
    """Return the store of the session in `folder`. A folder that is not among the sessions of a
    home holds its events itself."""
    if folder.parent.name != SESSIONS:
        return FileStore(folder)
    return library_of(folder.parent.parent).store(folder)


def _database_library(home: Path, place: str) -> Library:
    try:
        from agentcli.sessions.database_store import DatabaseLibrary
    except ModuleNotFoundError as missing:
        if missing.name != "sqlalchemy":
            raise
        message = "sessions.store names a database, and SQLAlchemy is not installed"
        raise ConfigError(message, hint=INSTALL) from missing
    return DatabaseLibrary(home, place)
