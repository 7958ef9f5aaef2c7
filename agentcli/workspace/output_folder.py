"""The folder where a session keeps complete outputs, and its size limit."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

from agentcli.workspace.private import reserve

MOST_BYTES = 1_000_000_000
"""Default limit for all outputs of a session."""
DISK_BYTES = 50_000_000
"""Limit for one output."""


class OutputFolder:
    """Limits how much output is kept.

    Nothing is ever removed to make room, because the model has been told where it is. Once the
    folder is full, further output is not kept, and the model is told so.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most_bytes
        self._used: int | None = None
        self._logs: list[Path] = []
        self._lock = Lock()
        """Each command in the background writes from a thread of its own."""

    @property
    def full(self) -> str:
        """Why output is no longer kept, as part of a sentence."""
        return f"this session has reached its limit of {self._most:,} bytes of saved output"

    @property
    def room(self) -> int:
        """How many more bytes may be written."""
        if self._used is None:
            self._used = self._count()
        growing = sum(map(_size, self._logs))
        return max(0, self._most - self._used - growing)

    def take(self, wanted: int) -> int:
        """Reserve up to `wanted` bytes and return how many may be written."""
        with self._lock:
            taken = min(wanted, self.room)
            self._used = (self._used or 0) + taken
        return taken

    def give_back(self, count: int) -> None:
        """Undo `take` for bytes that were removed."""
        with self._lock:
            self._used = (self._used or 0) - count

    def new_path(self, name: str) -> Path:
        """Return an unused path: `name` with a number in place of `{}`."""
        paths = (self.path / name.replace("{}", str(number)) for number in count(1))
        return next(path for path in paths if not path.exists())

    def add(self, name: str, data: bytes) -> Path:
        """Write `data` to a new file named as by `new_path`. Raises OSError, also if there is no
        room."""
        if (taken := self.take(len(data))) < len(data):
            self.give_back(taken)
            raise OSError(self.full)
        path = reserve(self.new_path(name))
        path.write_bytes(data)
        return path

    def add_log(self, path: Path) -> None:
        """Add a new file that others write to; its current size always counts."""
        self._used = self._count() if self._used is None else self._used
        self._logs.append(path)

    def _count(self) -> int:
        with suppress(OSError), os.scandir(self.path) as entries:
            return sum(_size(Path(entry.path)) for entry in entries)
        return 0


def _size(path: Path) -> int:
    """Return how many bytes of a file count; capped, as a job can make its log any length."""
    with suppress(OSError):
        return min(path.lstat().st_size, DISK_BYTES)
    return 0
