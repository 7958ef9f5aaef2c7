"""One JSON file per event, never torn under its final name, never two under one id.

An event is written complete and synced without a name, then linked to `events/<id>.json`; the
folder is synced before anyone acts on it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

from agentcli.errors import SessionError
from agentcli.files.private import sync_names
from agentcli.sessions.event_log import read_events, written_at
from agentcli.sessions.lock import SessionLock
from agentcli.sessions.pages import PAGE, read_page, write_page
from agentcli.sessions.write_faults import NO_ROOM, unwritable

RESERVE_BYTES = 128 * 1024
"""Set aside on the disk, so that when it is full what was going on can still be recorded."""
_PROC_FD = Path("/proc/self/fd")

log = logging.getLogger(__name__)


class Store(Protocol):
    """The events of one session as JSON objects, numbered from 0. Each is there whole or not at
    all, and never changes."""

    def lock(self) -> SessionLock:
        """For the one process that may append. Raises UsageError when another holds it."""

    def list(self) -> Sequence[int]:
        """The numbers of the events that there are, in order; one is missing only after damage."""

    def read(self, ids: range) -> Sequence[dict[str, Any]]:
        """These events, up to the first that is missing or damaged."""

    def append(self, records: Sequence[tuple[int, bytes]], *, barrier: bool = True) -> None:
        """Write events durably. Without `barrier` a crash of the computer may undo it until the
        next append: right for observations, which go before or with the next action.

        Raises SessionError when they can't be written, or an id is taken.
        """


class FileStore(Store):
    """A `Store` of one file per event in the folder of a session. Not `durable`: for a folder that
    is synced and put in its place as a whole."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.exhausted: SessionError | None = None
        """Set when the disk is full and the reserve was used up: no event after it may be acted
        on."""
        self._durable = durable
        self._folder = folder
        self._events = folder / "events"
        self._pages = folder / "event_cache"
        self._folder_fd: int | None = None
        self._page: list[bytes] = []
        self._unsynced_names = False
        self._unsynced_above: Sequence[Path] = ()
        """Folders that a new session's own folders have been made in."""

    def lock(self) -> SessionLock:
        return SessionLock(self._folder)

    def list(self) -> Sequence[int]:
        return sorted(written_at(self._events))

    def read(self, ids: range) -> Sequence[dict[str, Any]]:
        if len(ids) == PAGE and (page := read_page(self._folder, ids.start)) is not None:
            return page
        return read_events(self._events, ids)[0]

    def open(self, page: Sequence[bytes] = ()) -> Self:
        """Make ready to append; `page` holds the events of the last page, if it is not full."""
        if not self._events.exists():
            self._unsynced_above = (self._folder, *self._folder.parents[:2])
        for folder in (self._events, self._pages):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder_fd = os.open(self._events, os.O_RDONLY | os.O_DIRECTORY)
        self._page = list(page)
        self._set_aside()
        return self

    def append(self, records: Sequence[tuple[int, bytes]], *, barrier: bool = True) -> None:
        """Without `barrier` the names of the files are synced with the next append."""
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
            # It may be another name of an event: a process was killed before it removed this one.
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
        """False where the file system has no unnamed files (NFS, overlay on some)."""
        try:
            fd = os.open(self._events, os.O_TMPFILE | os.O_WRONLY, 0o600)
        except OSError:
            return False
        try:
            self._write_synced(fd, body)
            # Giving a source folder makes CPython call linkat, which alone follows this link.
            os.link(
                str(_PROC_FD / str(fd)),
                name,
                src_dir_fd=self._folder_fd,
                dst_dir_fd=self._folder_fd,
                follow_symlinks=True,
            )
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
        """An event that is found again needs the names of the folders it is in, too."""
        for folder in self._unsynced_above if self._durable else ():
            sync_names(folder)
        self._unsynced_above = ()

    def _add_to_page(self, event_id: int, body: bytes) -> None:
        if event_id % PAGE == 0:
            self._page = []
        self._page.append(body)
        if event_id % PAGE == PAGE - 1 and len(self._page) == PAGE:
            self.make_page(event_id - PAGE + 1, self._page)

    def make_page(self, start: int, bodies: Sequence[bytes]) -> None:
        """Keep a page over events whose files there are; without it they are read one by one."""
        try:
            write_page(self._folder, start, bodies)
        except OSError as error:
            log.warning("no page was made of the events from %d on: %s", start, error)

    def _set_aside(self) -> None:
        """A full disk has no room for a reserve; then the first event that fails says so."""
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


def encode(record: dict[str, Any]) -> tuple[bytes, bool]:
    """Compact JSON in UTF-8, and whether it is exact: lone surrogates become U+FFFD."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode(), True
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(), False


def _allocate(fd: int, size: int) -> None:
    """Blocks on the disk, not only a length."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        os.write(fd, b"\0" * size)
