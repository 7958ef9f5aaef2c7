"""The log of a session in files: events, pages of 100 events, and reading them without the right to
write.

Pages let a long log be read quickly. They are derived data: if one is damaged or older than one of
its events, the events themselves are read and the page is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, overload

from agentcli.errors import SessionError
from agentcli.events import Event, OpaqueEvent, event_from_dict
from agentcli.events.texts import json_value
from agentcli.sessions.state import State, apply, fold
from agentcli.sessions.store import Store, StoredLog
from agentcli.workspace.private import read_regular, replace_atomically

PAGE = 100


def page_path(folder: Path, start: int) -> Path:
    return folder / "event_cache" / f"{start}-{start + PAGE - 1}.json"


def write_page(folder: Path, start: int, bodies: Sequence[bytes]) -> None:
    """Store the JSON of the `PAGE` events that begin at `start`. Raises OSError."""
    joined = b"[" + b",\n".join(bodies) + b"]"
    digest = hashlib.sha256(joined).hexdigest().encode()
    replace_atomically(page_path(folder, start), digest, b"\n", joined)


def read_page(folder: Path, start: int, written_ns: int = 0) -> list[dict[str, Any]] | None:
    """Return the events of the page that begins at `start`, or None unless it is intact and not
    older than `written_ns`, the time its newest event was written."""
    try:
        data, status = read_regular(page_path(folder, start))
    except OSError:
        return None
    digest, _, body = data.partition(b"\n")
    if status.st_mtime_ns < written_ns or hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    page = json_value(body)
    wanted = range(start, start + PAGE)
    if not isinstance(page, list) or len(page) != PAGE:
        return None
    right = (isinstance(r, dict) and r.get("id") == i for r, i in zip(page, wanted, strict=True))
    return page if all(right) else None


_KEPT_IN_MEMORY = 3 * PAGE
"""Newest events kept in memory. Most code that reads old events needs only these; older ones are
read a page at a time."""


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
            if len(self) % PAGE == 0 and len(self._recent) > _KEPT_IN_MEMORY:
                first = (len(self) - _KEPT_IN_MEMORY) // PAGE * PAGE
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


_EVENT_FILE = re.compile(r"[0-9]{9}\.json", re.ASCII)


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
                if _EVENT_FILE.fullmatch(entry.name)
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


@dataclass(frozen=True)
class SessionRecord:
    """A session as read from its store, without the right to write."""

    folder: Path
    events: list[Event]
    state: State
    log: StoredLog

    def require_whole(self) -> None:
        """Raise SessionError where the session is damaged or has events unknown to this version.
        For callers that continue or repeat the session."""
        name = self.folder.name
        if self.log.fault:
            raise SessionError(
                f"session {name} is damaged: {self.log.fault}",
                hint=f"to go on with what is intact: agent sessions repair {name}; "
                f"to see it: agent sessions show {name}",
            )
        if any(isinstance(event, OpaqueEvent) for event in self.events):
            raise SessionError(
                f"session {name} was written by a newer version of agent",
                hint="upgrade agent to go on with it; without that, it can only be shown",
            )


def read_record(folder: Path, store: Store) -> SessionRecord:
    """Read a session. Raises SessionError when it does not exist, nothing of it can be read, or it
    is another user's."""
    stored = store.read_log()
    events = []
    for record in stored.records:
        try:
            events.append(event_from_dict(record))
        except (ValueError, TypeError, AttributeError) as error:
            stored = replace(stored, fault=f"event {record.get('id')}: {error}")
            break
    cached = store.load_state()
    if cached is None or not -1 <= cached.end_id < len(events):
        cached = State()
    state = fold(events[cached.end_id + 1 :], cached)
    return SessionRecord(folder, events, state, stored)


def state_in(folder: Path, store: Store) -> State:
    """Return a session's state: the cached one if it can be trusted, updated with the events
    recorded since. Raises SessionError."""
    cached = store.load_state()
    if cached is None:
        return read_record(folder, store).state
    # What a killed process recorded after it last saved the state.
    records = store.read(range(cached.end_id + 1, sys.maxsize))
    with suppress(ValueError, TypeError, AttributeError):
        for record in records:
            cached = apply(cached, event_from_dict(record))
    return cached


def state_or_empty(folder: Path, store: Store) -> State:
    """Return a session's state for a list; an unreadable session gets an empty one that says so."""
    try:
        return state_in(folder, store)
    except (SessionError, OSError, ValueError):
        return State(session_id=folder.name, title="(can't be read)")
