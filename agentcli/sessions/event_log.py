"""The events of an open session as a sequence, most of which stays on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import overload

from agentcli.events import Event
from agentcli.sessions.pages import PAGE

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
