"""One JSON file per event, never torn under its final name, never two under one id.

An event is written complete and synced without a name, then linked to `events/<id>.json`; the
folder is synced before anyone acts on it. Pages over 100 aligned events (`event_cache/`) only make
reading faster; whatever is wrong with one, the events are read instead.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError

PAGE = 100
_EVENT_FILE = re.compile(r"[0-9]{9}\.json", re.ASCII)
_PROC_FD = Path("/proc/self/fd")


@dataclass(frozen=True)
class StoredLog:
    """`records` are the JSON objects of events 0, 1, 2 …; `torn` is a damaged last file that was
    left out, `fault` names what is wrong before the end and makes the session unfit for writing."""

    records: list[dict[str, Any]]
    torn: Path | None = None
    fault: str | None = None


class EventStore:
    """Reads and appends the events of one session folder; the caller holds the lock."""

    def __init__(self, folder: Path) -> None:
        self._events = folder / "events"
        self._pages = folder / "event_cache"
        self._folder_fd: int | None = None
        self._page: list[bytes] = []
        self._unsynced_names = False

    def open(self, next_id: int = 0, page: Sequence[bytes] = ()) -> None:
        """Make ready to append event `next_id`; `page` holds the events of its page so far."""
        for folder in (self._events, self._pages):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder_fd = os.open(self._events, os.O_RDONLY | os.O_DIRECTORY)
        self._page = list(page)

    def append(self, records: Sequence[tuple[int, bytes]], *, barrier: bool = True) -> None:
        """Write events durably. Without `barrier` their names are synced with the next append:
        right for observations, on which nobody acts before the next request is built.

        Raises SessionError when the disk is full or read-only, or an id is taken.
        """
        assert self._folder_fd is not None, "open() comes first"
        for event_id, body in records:
            try:
                self._link_complete(f"{event_id:09d}.json", body)
            except FileExistsError as error:
                raise SessionError(
                    f"event {event_id} already exists in {self._events}",
                    hint="another program wrote to this session; fork it to go on",
                ) from error
            except OSError as error:
                raise _cannot_write(self._events, error) from error
            self._add_to_page(event_id, body)
        if barrier or self._unsynced_names:
            os.fsync(self._folder_fd)
        self._unsynced_names = not barrier

    def close(self) -> None:
        if self._folder_fd is not None:
            os.close(self._folder_fd)
            self._folder_fd = None

    def _link_complete(self, name: str, body: bytes) -> None:
        if sys.platform == "linux" and self._link_unnamed(name, body):
            return
        temporary = f".{name}.tmp"
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY
        fd = os.open(temporary, flags, 0o600, dir_fd=self._folder_fd)
        try:
            _write_synced(fd, body)
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
            _write_synced(fd, body)
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

    def _add_to_page(self, event_id: int, body: bytes) -> None:
        if event_id % PAGE == 0:
            self._page = []
        self._page.append(body)
        if event_id % PAGE == PAGE - 1 and len(self._page) == PAGE:
            start = event_id - PAGE + 1
            path = self._pages / f"{start}-{event_id}.json"
            joined = b"[" + b",\n".join(self._page) + b"]"
            temporary = path.with_suffix(".tmp")
            fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with open(fd, "wb") as file:
                file.write(hashlib.sha256(joined).hexdigest().encode() + b"\n" + joined)
            temporary.replace(path)


def read_log(folder: Path) -> StoredLog:
    """Every event that is intact up to the first fault. Raises SessionError when there is none."""
    events = folder / "events"
    try:
        names = {entry.name for entry in os.scandir(events)}
    except OSError as error:
        raise SessionError(f"{folder} holds no session: {error.strerror}") from error
    ids = sorted(int(name[:-5]) for name in names if _EVENT_FILE.fullmatch(name))
    records: list[dict[str, Any]] = []
    for start in range(0, len(ids), PAGE):
        wanted = ids[start : start + PAGE]
        if wanted != list(range(start, start + len(wanted))):
            missing = next(n for n, i in enumerate(wanted, start) if n != i)
            records += _read_events(events, list(range(start, missing)))[0]
            return StoredLog(records, fault=f"{events / f'{missing:09d}.json'} is missing")
        page = _read_page(folder, start) if len(wanted) == PAGE else None
        if page is None:
            page, damaged = _read_events(events, wanted)
            if damaged is not None:
                last = start + len(page) == len(ids) - 1
                records += page
                return (
                    StoredLog(records, torn=damaged)
                    if last
                    else StoredLog(records, fault=f"{damaged} is damaged")
                )
        records += page
    return StoredLog(records)


def _read_page(folder: Path, start: int) -> list[dict[str, Any]] | None:
    try:
        data = _read_file(folder / "event_cache" / f"{start}-{start + PAGE - 1}.json")
    except OSError:
        return None
    digest, _, body = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    page: list[dict[str, Any]] = json.loads(body)
    return page


def _read_events(events: Path, ids: list[int]) -> tuple[list[dict[str, Any]], Path | None]:
    """The intact ones in order, and the first that is not."""
    records: list[dict[str, Any]] = []
    for event_id in ids:
        path = events / f"{event_id:09d}.json"
        try:
            record = json.loads(_read_file(path))
        except (OSError, ValueError, RecursionError):
            return records, path
        if not isinstance(record, dict) or record.get("id") != event_id:
            return records, path
        records.append(record)
    return records, None


def _read_file(path: Path) -> bytes:
    """The bytes of a regular file; a FIFO under its name must not make anyone wait."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return file.read()


def _write_synced(fd: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def _cannot_write(path: Path, error: OSError) -> SessionError:
    try:
        status = os.statvfs(path)
        free = f"{status.f_bavail * status.f_frsize // 1024:,} kB free"
    except OSError:
        free = "free space unknown"
    return SessionError(
        f"the session can't be written: {error.strerror} ({path}, {free})",
        hint="make room or permissions there, then resume; nothing recorded before is lost",
    )
