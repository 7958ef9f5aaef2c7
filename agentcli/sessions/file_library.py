"""All sessions of a home stored as files, one folder each."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.sessions.file_store import FileStore, kept_elsewhere
from agentcli.sessions.lock import holders_of
from agentcli.sessions.reading import state_or_empty
from agentcli.sessions.state import State
from agentcli.sessions.store import Holder, Library
from agentcli.workspace.private import remove_tree, sync_names

SESSIONS = "sessions"
"""The folder of a home that contains one folder per session."""
_EVENTS = "events"
_UNCERTAIN_NS = 2_000_000_000
"""A folder changed within this time may change again without a new modification time."""


class FileLibrary(Library):
    """The sessions in the folder `sessions` of `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._sessions = home / SESSIONS
        self.shown = str(self._sessions)
        self.places: Sequence[Path] = ()

    def store(self, folder: Path) -> FileStore:
        return FileStore(folder)

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def states(self, workspace: str | None = None) -> Iterator[tuple[Path, State]]:
        for folder in self._last_used_first():
            state = state_or_empty(folder, FileStore(folder))
            if workspace is None or state.workspace == workspace:
                yield folder, state

    def holders(self, session_ids: Iterable[str]) -> dict[str, Holder]:
        return holders_of(self._sessions, session_ids)

    def stamps(self) -> Iterable[tuple[str, str]]:
        for folder in self._folders():
            if folder.is_symlink():
                continue
            yield folder.name, _folder_stamp(folder / _EVENTS)

    def adopt(self, made: Path, session_id: str) -> None:
        if (self._sessions / session_id / _EVENTS).exists():
            raise SessionError(f"session {session_id} already exists in {self.shown}")
        put_in_place(made, self._sessions / session_id)
        sync_names(self._home)

    def _folders(self) -> list[Path]:
        try:
            with os.scandir(self._sessions) as entries:
                return [Path(e.path) for e in entries if e.is_dir() and is_session_id(e.name)]
        except OSError:
            return []

    def _last_used_first(self) -> list[Path]:
        """Return the folders of all sessions, the last written first, without reading any session.
        Those whose events are in a database are left out."""
        found = [(_last_write(folder), folder) for folder in self._folders()]
        mine = [(at, folder) for at, folder in found if at or kept_elsewhere(folder) is None]
        return [folder for _, folder in sorted(mine, reverse=True)]


def put_in_place(made: Path, folder: Path) -> None:
    """Give the session folder `made` its real name, durably. If the session has a folder already,
    move the files of `made` that it lacks into it, the events last. Raises OSError."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    sync_names(made)
    if not folder.exists():
        made.rename(folder)
    else:
        for path in sorted(made.iterdir(), key=lambda path: path.name == _EVENTS):
            if not (folder / path.name).exists():
                path.rename(folder / path.name)
        sync_names(folder)
        remove_tree(made)
    sync_names(folder.parent)


def is_session_id(name: str) -> bool:
    """Whether `name` is allowed as a session id. Folders with other names are never shown."""
    return re.fullmatch(r"[\w.-]{1,255}", name, re.ASCII) is not None and name not in (".", "..")


def _last_write(folder: Path) -> int:
    """Return the folder's modification time, which changes because each event adds a name to it."""
    try:
        return (folder / _EVENTS).stat().st_mtime_ns
    except OSError:
        return 0


def _folder_stamp(events: Path) -> str:
    try:
        status = events.lstat()
    except OSError:
        return ""
    settled = abs(time.time_ns() - status.st_mtime_ns) > _UNCERTAIN_NS
    return f"{status.st_ino}:{status.st_mtime_ns}" if settled else ""
