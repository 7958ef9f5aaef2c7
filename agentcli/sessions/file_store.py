"""One JSON file per event: complete once it has its final name, and only one for each id.

An event is written and synced as an unnamed file, then linked to `events/<id>.json`. The folder is
synced before anyone acts on the event.
"""

from __future__ import annotations

import logging
import os
import sys
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from agentcli.errors import SessionError
from agentcli.events.json_text import compact_json
from agentcli.sessions.event_files import event_path, read_events, read_log
from agentcli.sessions.lock import SessionLock, holder_of
from agentcli.sessions.manage.ownership import require_own, require_safe_place
from agentcli.sessions.pages import PAGE, read_page, write_page
from agentcli.sessions.state import State, load_state, save_state
from agentcli.sessions.store import Holder, Store, StoredLog
from agentcli.sessions.write_faults import NO_ROOM, unwritable
from agentcli.workspace.private import (
    link_open_file,
    read_private,
    remove_tree,
    replace_atomically,
    sync_names,
    sync_names_above,
)

RESERVE_BYTES = 128 * 1024
"""Disk space set aside, so that work in progress can still be recorded when the disk is full."""
_MOST_EVENTS = 10**9
FILE_NAMES = ("events", "event_cache", "state.pkl", "reserve", "session.lock")
"""What a session's folder contains only if its events are files; the events come first."""
_PLACE = "store"
_LONGEST_PLACE = 2_000

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
                self._sync_above()
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

    def _sync_above(self) -> None:
        """Sync the folders above, too: an event can only be found if their names survive."""
        for folder in self._unsynced_above if self._durable else ():
            sync_names(folder)
        self._unsynced_above = ()

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
                if os.fstat(fd).st_size < RESERVE_BYTES:
                    _allocate(fd, RESERVE_BYTES)
            finally:
                os.close(fd)

    def _free_reserve(self) -> bool:
        try:
            (self._folder / "reserve").unlink()
        except OSError:
            return False
        return True


def make_folder(folder: Path, *, anew: bool = True) -> None:
    """Create the folder of a session. Raises SessionError when it can't be created, or when it
    exists and `anew` is set."""
    try:
        is_first = not folder.parent.exists()
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_safe_place(folder.parent)
        if is_first:
            # The home is new, too, and whoever created it did not sync its name.
            sync_names_above(folder.parents[1])
        folder.mkdir(mode=0o700, exist_ok=not anew)
    except OSError as error:
        raise unwritable(folder.parent, error) from error


def keep_elsewhere(folder: Path, place: str) -> None:
    """Note that the session's events are in `place`, for people and for other settings. Raises
    OSError."""
    _note_places(folder, [place, *noted_places(folder)])


def forget_place(folder: Path, place: str) -> None:
    """Note that the session is no longer in `place`. Raises OSError."""
    if place in (places := noted_places(folder)):
        _note_places(folder, [each for each in places if each != place])


def noted_places(folder: Path) -> list[str]:
    """Return the databases that the session is in, the newest first, as far as this home knows."""
    noted = read_private(folder / _PLACE, _LONGEST_PLACE)
    return (noted or b"").decode(errors="replace").split("\n")[:-1]


def _note_places(folder: Path, places: Sequence[str]) -> None:
    lines = "".join(f"{place}\n" for place in dict.fromkeys(places))
    if lines:
        replace_atomically(folder / _PLACE, lines.encode())
    else:
        (folder / _PLACE).unlink(missing_ok=True)


def kept_elsewhere(folder: Path) -> str | None:
    """Return the noted place of a session's events if its folder has none; otherwise, or if nothing
    is noted, None."""
    if (folder / "events").exists():
        return None
    return next(iter(noted_places(folder)), None)


def was_opened_here(folder: Path) -> bool:
    """Whether a session was created or opened in this home before, so that its files are there."""
    return (folder / "events").exists() or kept_elsewhere(folder) is not None


def _bodies(records: Sequence[dict[str, Any]]) -> list[bytes]:
    return [compact_json(record) for record in records]


def _allocate(fd: int, size: int) -> None:
    """Allocate blocks on the disk, not only a length."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        os.write(fd, b"\0" * size)
