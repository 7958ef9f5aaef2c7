"""Where the sessions of a home are: as files in it, unless the person's settings name a database.

The one door: whoever reads or writes sessions asks here for the `Library` of a home or for the
`Store` of a session, and need not know which it is.
"""

from __future__ import annotations

from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.sessions.chosen import FILES, INSTALL, chosen_store
from agentcli.sessions.file_library import SESSIONS, FileLibrary
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.store import Library, Store

_known: dict[tuple[Path, str], Library] = {}


def library_of(home: Path) -> Library:
    """All sessions of `home`. Raises ConfigError for a database that can't be used."""
    return library_at(home, chosen_store(home))


def library_at(home: Path, place: str) -> Library:
    """The sessions of `home` that are in `place`: `files`, or the URL of a database. Raises
    ConfigError."""
    key = (home, place)
    if key not in _known:
        _known[key] = _library(home, place)
    return _known[key]


def let_go() -> None:
    """Close what is open of any: a connection to a database is not for a copy of this process. Who
    asks again, here or in the copy, has it opened anew."""
    while _known:
        _known.popitem()[1].close()


def store_of(folder: Path) -> Store:
    """That of the session in `folder`. A folder that is not among the sessions of a home has its
    events in it."""
    if folder.parent.name != SESSIONS:
        return FileStore(folder)
    return library_of(folder.parent.parent).store(folder)


def _library(home: Path, place: str) -> Library:
    if place == FILES:
        return FileLibrary(home)
    try:
        from agentcli.sessions.database.library import DatabaseLibrary
    except ModuleNotFoundError as missing:
        if missing.name != "sqlalchemy":
            raise
        told = "sessions.store names a database, and SQLAlchemy is not installed"
        raise ConfigError(told, hint=INSTALL) from missing
    return DatabaseLibrary(home, place)
