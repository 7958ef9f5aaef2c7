"""Sessions as files, one folder each, and in it one JSON file per event: complete once it has its
final name, and only one for each id.

An event is written and synced as an unnamed file, then linked to `events/<id>.json`. The folder is
synced before anyone acts on the event.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from agentcli.errors import SessionError
from agentcli.events.texts import compact_json
from agentcli.sessions.event_log import (
    PAGE,
    event_path,
    read_events,
    read_log,
    read_page,
    state_or_empty,
    write_page,
)
from agentcli.sessions.folder import (
    NO_ROOM,
    kept_elsewhere,
    make_folder,
    noted_places,
    require_own,
    unwritable,
)
from agentcli.sessions.state import State, load_state, save_state
from agentcli.sessions.store import (
    Holder,
    Library,
    SessionLock,
    Store,
    StoredLog,
    holder_of,
    holders_of,
)
from agentcli.workspace.private import link_open_file, remove_tree, sync_names

SESSIONS = "sessions"
"""The folder of a home that contains one folder per session."""
RESERVE_BYTES = 128 * 1024
"""Disk space set aside, so that work in progress can still be recorded when the disk is full."""
_MOST_EVENTS = 10**9
FILE_NAMES = ("events", "event_cache", "state.pkl", "reserve", "session.lock")
"""What a session's folder contains only if its events are files; the events come first."""
_EVENTS = "events"
_UNCERTAIN_NS = 2_000_000_000
"""A folder changed within this time may change again without a new modification time."""

log = logging.getLogger(__name__)


class FileStore(Store):
    """A `Store` of one file per event in the folder of a session. `durable=False` skips syncing,
    for a folder that is synced and moved into place as a whole."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.exhausted: SessionError | None = None
        self._durable = durable
        self._folder = folder
        self._events = folder / "events"
        self._pages = folder / "event_cache"
        self._state = folder / "state.pkl"
        self._folder_fd: int | None = None
        self._page: list[bytes] = []
        self._unsynced_names = False
        self._unsynced_above: Sequence[Path] = ()
        """Folders in which a new session's own folders were created."""

    def exists(self) -> bool:
        return self._events.is_dir()

    def check(self) -> None:
        if (place := kept_elsewhere(self._folder)) is not None:
            raise SessionError(
                f"session {self._folder.name} is kept in {place}",
                hint="set sessions.store to that, or copy it: agent sessions copy --from STORE",
            )
        require_own(self._folder)

    def create(self) -> SessionLock:
        make_folder(self._folder)
        with ExitStack() as undo:
            undo.callback(remove_tree, self._folder)
            lock = SessionLock(self._folder)
            undo.pop_all()
        return lock

    def lock(self) -> SessionLock:
        self.check()
        return SessionLock(self._folder)

    def holder(self) -> Holder | None:
        return holder_of(self._folder)

    def read_log(self) -> StoredLog:
        self.check()
        return read_log(self._folder)

    def read(self, ids: range) -> Sequence[dict[str, Any]]:
        if len(ids) == PAGE and (page := read_page(self._folder, ids.start)) is not None:
            return page
        return read_events(self._events, ids)[0]

    def count(self) -> int:
        ids = range(_MOST_EVENTS)
        return bisect_left(
            ids, True, key=lambda event_id: not event_path(self._folder, event_id).exists()
        )

    def stamp(self, event_id: int) -> str:
        try:
            status = event_path(self._folder, event_id).lstat()
        except OSError:
            return "gone"
        return f"{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"

    def load_state(self) -> State | None:
        return load_state(self._state)

    def save_state(self, state: State) -> None:
        try:
            save_state(self._state, state)
        except OSError as error:
            log.warning("state.pkl was not saved, it will be rebuilt: %s", error)

    def open(self, log: StoredLog | None = None) -> Self:
        records = log.records if log else []
        if log and log.torn:
            log.torn.rename(log.torn.with_suffix(".torn"))
        if not self._events.exists():
            self._unsynced_above = (self._folder, *self._folder.parents[:2])
        for folder in (self._events, self._pages):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder_fd = os.open(self._events, os.O_RDONLY | os.O_DIRECTORY)
        self._page = _bodies(records[len(records) // PAGE * PAGE :])
        for start in log.stale_pages if log else ():
            self._make_page(start, _bodies(records[start : start + PAGE]))
        self._set_aside()
        return self

    def append(
        self,
        records: Sequence[tuple[int, bytes]],
        state: State | None = None,
        *,
        barrier: bool = True,
    ) -> None:
        """Append events. Without `barrier` the file names are synced with the next append. The
        state is ignored here: `save_state` stores it."""
        assert self._folder_fd is not None, "open() comes first"
        for event_id, body in records:
            try:
                self._write(f"{event_id:09d}.json", body)
            except FileExistsError as error:
                raise SessionError(
                    f"event {event_id} already exists in {self._events}",
                    hint="another program wrote to this session; fork it to go on",
                ) from error
            except OSError as error:
                raise unwritable(self._events, error) from error
            self._add_to_page(event_id, body)
        if barrier or self._unsynced_names:
            try:
                self._fsync(self._folder_fd)
                # Too: an event can only be found if the names of the folders above survive.
                for folder in self._unsynced_above if self._durable else ():
                    sync_names(folder)
                self._unsynced_above = ()
            except OSError as error:
                raise unwritable(self._events, error) from error
        self._unsynced_names = not barrier

    def close(self) -> None:
        self._free_reserve()
        if self._folder_fd is not None:
            os.close(self._folder_fd)
            self._folder_fd = None

    def own_files(self) -> Sequence[str] | None:
        return FILE_NAMES if noted_places(self._folder) else None

    def remove(self) -> None:
        """Do nothing: the events go when their folder is removed."""

    def _write(self, name: str, body: bytes) -> None:
        try:
            self._link_complete(name, body)
        except OSError as error:
            if error.errno not in NO_ROOM or not self._free_reserve():
                raise
            self.exhausted = unwritable(self._events, error)
            self._link_complete(name, body)

    def _link_complete(self, name: str, body: bytes) -> None:
        if sys.platform == "linux" and self._link_unnamed(name, body):
            return
        temporary = f".{name}.tmp"
        with suppress(FileNotFoundError):
            # A process that was killed before removing this name may have left it linked to an
            # event.
            os.unlink(temporary, dir_fd=self._folder_fd)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        fd = os.open(temporary, flags, 0o600, dir_fd=self._folder_fd)
        try:
            self._write_synced(fd, body)
        finally:
            os.close(fd)
        try:
            os.link(temporary, name, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd)
        finally:
            os.unlink(temporary, dir_fd=self._folder_fd)

    def _link_unnamed(self, name: str, body: bytes) -> bool:
        """Return False where the file system has no unnamed files (NFS, overlay on some)."""
        try:
            fd = os.open(self._events, os.O_TMPFILE | os.O_WRONLY, 0o600)
        except OSError:
            return False
        try:
            self._write_synced(fd, body)
            assert self._folder_fd is not None, "open() comes first"
            link_open_file(fd, name, self._folder_fd)
        finally:
            os.close(fd)
        return True

    def _write_synced(self, fd: int, body: bytes) -> None:
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view) :]
        self._fsync(fd)

    def _fsync(self, fd: int) -> None:
        if self._durable:
            os.fsync(fd)

    def _add_to_page(self, event_id: int, body: bytes) -> None:
        if event_id % PAGE == 0:
            self._page = []
        self._page.append(body)
        if event_id % PAGE == PAGE - 1 and len(self._page) == PAGE:
            self._make_page(event_id - PAGE + 1, self._page)

    def _make_page(self, start: int, bodies: Sequence[bytes]) -> None:
        """Store a page for events that have their own files; without it they are read one by
        one."""
        try:
            write_page(self._folder, start, bodies)
        except OSError as error:
            log.warning("no page was made of the events from %d on: %s", start, error)

    def _set_aside(self) -> None:
        """Allocate the reserve. A disk that is already full has no room for it; then the first
        event that can't be written reports that."""
        with suppress(OSError):
            flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW
            fd = os.open(self._folder / "reserve", flags, 0o600)
            try:
                # Blocks on the disk, not only a length.
                if os.fstat(fd).st_size < RESERVE_BYTES:
                    if hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(fd, 0, RESERVE_BYTES)
                    else:
                        os.write(fd, b"\0" * RESERVE_BYTES)
            finally:
                os.close(fd)

    def _free_reserve(self) -> bool:
        try:
            (self._folder / "reserve").unlink()
        except OSError:
            return False
        return True


def _bodies(records: Sequence[dict[str, Any]]) -> list[bytes]:
    return [compact_json(record) for record in records]


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
        found = [(_last_write(folder), folder) for folder in self._folders()]
        # The events of the others are in a database.
        mine = [(at, folder) for at, folder in found if at or kept_elsewhere(folder) is None]
        for _, folder in sorted(mine, reverse=True):
            state = state_or_empty(folder, FileStore(folder))
            if workspace is None or state.workspace == workspace:
                yield folder, state

    def holders(self, session_ids: Iterable[str]) -> dict[str, Holder]:
        return holders_of(self._sessions, session_ids)

    def stamps(self) -> Iterable[tuple[str, str]]:
        for folder in self._folders():
            if not folder.is_symlink():
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
