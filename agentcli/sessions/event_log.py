"""Reading the log of a session: finding the intact events, and giving access to their sequence."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, overload

from agentcli.errors import SessionError
from agentcli.events import Event
from agentcli.files.private import read_regular
from agentcli.sessions.pages import PAGE, read_page
from agentcli.sessions.store import StoredLog

EVENT_FILE = re.compile(r"[0-9]{9}\.json", re.ASCII)
KEPT_IN_MEMORY = 3 * PAGE
"""Newest events kept in memory. Most code that reads old events needs only these; older ones are
read a page at a time."""


def read_log(folder: Path) -> StoredLog:
    """Return every intact event up to the first fault. Raises SessionError when there is none."""
    events = folder / "events"
    written = written_at(events)
    ids = sorted(written)
    records: list[dict[str, Any]] = []
    stale = []
    for start in range(0, len(ids), PAGE):
        wanted = ids[start : start + PAGE]
        if wanted != list(range(start, start + len(wanted))):
            missing = next(n for n, i in enumerate(wanted, start) if n != i)
            records += read_events(events, range(start, missing))[0]
            return StoredLog(records, fault=f"{event_path(folder, missing)} is missing")
        page = None
        if len(wanted) == PAGE:
            page = read_page(folder, start, max(written[event_id] for event_id in wanted))
        if page is None:
            page, damaged = read_events(events, range(start, start + len(wanted)))
            if damaged is not None:
                records += page
                if len(records) == len(ids) - 1:
                    return StoredLog(records, torn=damaged)
                return StoredLog(records, fault=f"{damaged} is damaged")
            if len(wanted) == PAGE:
                stale.append(start)
        records += page
    return StoredLog(records, stale_pages=tuple(stale))


def written_at(events: Path) -> dict[int, int]:
    """Return the time at which each event's file was written, in ns. Raises SessionError."""
    try:
        with os.scandir(events) as entries:
            return {
                int(entry.name[:-5]): entry.stat(follow_symlinks=False).st_mtime_ns
                for entry in entries
                if EVENT_FILE.fullmatch(entry.name)
            }
    except OSError as error:
        raise SessionError(f"there is no session in {events.parent}: {error.strerror}") from error


def read_events(events: Path, ids: Sequence[int]) -> tuple[list[dict[str, Any]], Path | None]:
    """Return the intact events in order, and the path of the first one that is not intact."""
    records: list[dict[str, Any]] = []
    for event_id in ids:
        path = events / f"{event_id:09d}.json"
        try:
            record = json.loads(read_regular(path)[0])
        except (OSError, ValueError, RecursionError):
            return records, path
        if not isinstance(record, dict) or record.get("id") != event_id:
            return records, path
        records.append(record)
    return records, None


def event_path(folder: Path, event_id: int) -> Path:
    return folder / "events" / f"{event_id:09d}.json"


class EventLog(Sequence[Event]):
    """All events of a session. Only the newest are in memory, so memory use does not grow with the
    session; older ones are read again with `read`, a page at a time, on demand. Tools that run in
    parallel may read the log while the main thread appends."""

    def __init__(self, events: list[Event], read: Callable[[int], list[Event]]) -> None:
        self._recent = events
        self._first = 0
        self._read = read
        self._page: tuple[int, list[Event]] = (-1, [])
        self._lock = Lock()

    def append(self, event: Event) -> None:
        with self._lock:
            self._recent.append(event)
            if len(self) % PAGE == 0 and len(self._recent) > KEPT_IN_MEMORY:
                first = (len(self) - KEPT_IN_MEMORY) // PAGE * PAGE
                del self._recent[: first - self._first]
                self._first = first

    def __len__(self) -> int:
        return self._first + len(self._recent)

    @overload
    def __getitem__(self, where: int) -> Event: ...
    @overload
    def __getitem__(self, where: slice) -> list[Event]: ...
    def __getitem__(self, where: int | slice) -> Event | list[Event]:
        if isinstance(where, slice):
            return [self._at(index) for index in range(*where.indices(len(self)))]
        index = where + len(self) if where < 0 else where
        if not 0 <= index < len(self):
            raise IndexError(where)
        return self._at(index)

    def __iter__(self) -> Iterator[Event]:
        index = 0
        while index < len(self):
            yield self._at(index)
            index += 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def _at(self, index: int) -> Event:
        with self._lock:
            if index >= self._first:
                return self._recent[index - self._first]
            start = index // PAGE * PAGE
            if self._page[0] != start:
                self._page = (start, self._read(start))
            return self._page[1][index - start]
