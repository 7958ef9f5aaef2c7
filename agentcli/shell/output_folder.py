"""The folder of a session where whole outputs are kept, and how much it may hold."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 1_000_000_000
"""Of all outputs of a session, where nothing else is set."""
DISK_BYTES = 50_000_000
"""Of one output."""


class OutputFolder:
    """Nothing in it is ever removed to make room, as the model has been told that it is there: what
    comes when the folder is full is not kept, and the model is told that."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most_bytes
        self._used: int | None = None
        self._logs: list[Path] = []

    @property
    def full(self) -> str:
        """That it is, for a sentence on what is not kept."""
        return f"a session keeps {self._most:,} bytes of outputs, and this one has them"

    @property
    def room(self) -> int:
        """Bytes that may come."""
        if self._used is None:
            self._used = self._count()
        growing = sum(map(_size, self._logs))
        return max(0, self._most - self._used - growing)

    def take(self, wanted: int) -> int:
        """How many bytes of so many may be written; they count from now on."""
        taken = min(wanted, self.room)
        self._used = (self._used or 0) + taken
        return taken

    def give_back(self, count: int) -> None:
        """So many bytes that had been taken are not there any more."""
        self._used = (self._used or 0) - count

    def add_log(self, path: Path) -> None:
        """A new file that others write: it counts with the size that it has when it is asked."""
        self._used = self._count() if self._used is None else self._used
        self._logs.append(path)

    def _count(self) -> int:
        with suppress(OSError), os.scandir(self.path) as entries:
            return sum(_size(Path(entry.path)) for entry in entries)
        return 0


def _size(path: Path) -> int:
    """What counts of a file: a job can give its log any length."""
    with suppress(OSError):
        return min(path.lstat().st_size, DISK_BYTES)
    return 0
