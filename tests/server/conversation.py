"""A request's conversation as a flat list of parts: what a prompt cache sees of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .script import Recorded
from .wire import dumps

BYTES_IN_A_TOKEN = 4


class Part(NamedTuple):
    """One tool, system block, role or content block, with its place; cache marks taken off."""

    where: str
    value: object
    marked: bool = False
    """Carried a cache mark."""


Parts = Callable[[dict[str, Any]], list[Part]]


def part(where: str, value: object, mark: str) -> Part:
    """`value` without its cache marks, which are not part of what the model reads."""
    if not isinstance(value, dict):
        return Part(where, value)
    marked = bool(value.get(mark))
    if mark in value:
        value = {key: item for key, item in value.items() if key != mark}
    inner = value.get("content")
    if isinstance(inner, list):
        parts = [part("", item, mark) for item in inner]
        value = value | {"content": [item.value for item in parts]}
        marked = marked or any(item.marked for item in parts)
    return Part(where, value, marked)


def shared(before: list[Part], after: list[Part]) -> int:
    """How many parts both begin with."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old.value != new.value or old.where != new.where:
            return index
    return min(len(before), len(after))


def prefix_breaks(requests: Iterable[Recorded], parts: Mapping[str, Parts]) -> list[str]:
    """Each request that doesn't begin with the one before it of the same api, and where it parts
    from it. Refused requests are left out."""
    breaks: list[str] = []
    latest: dict[str, tuple[int, list[Part]]] = {}
    for number, request in enumerate(requests, 1):
        if request.refused:
            continue
        now = parts[request.api](request.body)
        earlier, before = latest.get(request.api, (0, []))
        latest[request.api] = number, now
        same = shared(before, now)
        if same < len(before):
            new = f"{now[same].where} = {_brief(now[same])}" if same < len(now) else "nothing"
            breaks.append(
                f"{request.api}: request {number} does not begin with request {earlier}: "
                f"{before[same].where} = {_brief(before[same])} became {new}"
            )
    return breaks


def _brief(item: Part) -> str:
    text = dumps(item.value).decode()
    return text if len(text) <= 120 else text[:117] + "..."


class Meter:
    """Counts prompt tokens, and how many of them the request before has left in the cache."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[list[Part], list[int], int]] = {}

    def count(self, api: str, now: list[Part], size: int, explicit: bool) -> tuple[int, int, int]:
        """(all, read from cache, written to cache) for a request of `size` bytes. With `explicit`
        caching only what stands before a cache mark is written or read."""
        before, sizes, reach = self._latest.get(api, ([], [], 0))
        same = shared(before, now)
        sizes = sizes[:same] + [len(dumps(item.value)) for item in now[same:]]
        limit = len(now)
        if explicit:
            limit = max((n for n, item in enumerate(now, 1) if item.marked), default=0)
        self._latest[api] = now, sizes, limit
        total, hit = size // BYTES_IN_A_TOKEN, min(same, reach, limit)
        cached = min(sum(sizes[:hit]) // BYTES_IN_A_TOKEN, total)
        written = min(sum(sizes[hit:limit]) // BYTES_IN_A_TOKEN, total - cached)
        return total, cached, written
