"""Secrets masked in whatever is recorded or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MASK = "[redacted]"
_SHORTEST_SECRET = 8

_PATTERNS = (
    r"sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}",
    r"gh[pousr]_[A-Za-z0-9]{36,}",
    r"github_pat_[A-Za-z0-9_]{40,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"AKIA[0-9A-Z]{16}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"glpat-[A-Za-z0-9_-]{20,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----",
    r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
)


class Redactor:
    """Masks the given values and everything that has the form of a well-known kind of key."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self.learn(*values)

    def learn(self, *values: str) -> None:
        """Mask these too from now on."""
        self._known |= {value for value in values if len(value) >= _SHORTEST_SECRET}
        longest_first = sorted(self._known, key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, longest_first), *_PATTERNS]))

    def text(self, text: str) -> str:
        return self._pattern.sub(MASK, text)

    def __call__(self, data: Any) -> Any:
        """`data` with its strings masked at any depth; the same object when nothing was."""
        if isinstance(data, str):
            masked = self._pattern.sub(MASK, data)
            return data if masked == data else masked
        if isinstance(data, dict):
            items = {self(key): self(value) for key, value in data.items()}
            same = all(
                new_key is key and items[new_key] is data[key]
                for key, new_key in zip(data, items, strict=False)
            )
            return data if same and len(items) == len(data) else items
        if isinstance(data, list | tuple):
            values = [self(item) for item in data]
            return data if all(a is b for a, b in zip(values, data, strict=True)) else values
        return data
