"""The folder where a session keeps whole outputs, and how much it may hold."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

from agentcli.files.private import reserve

MOST_BYTES = 1_000_000_000
"""Of all outputs of a session, where nothing else is set."""
DISK_BYTES = 50_000_000
"""Of one output."""


class OutputFolder:
    """Nothing is ever removed to make room, because the model has been told of it. Once the folder
    is full, further output is not kept, and the model is told that."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most_bytes
        self._used: int | None = None
        self._logs: list[Path] = []
        self._lock = Lock()
        """Commands in the background have a thread each that writes."""

    @property
    def full(self) -> str:
        """Why output is not kept any more, as part of a sentence."""
        return f"a session keeps {self._most:,} bytes of outputs, and this one has them"

    @property
    def room(self) -> int:
        """How many more bytes may be written."""
        if self._used is None:
            self._used = self._count()
        growing = sum(map(_size, self._logs))
        return max(0, self._most - self._used - growing)

    def take(self, wanted: int) -> int:
        """How many of the `wanted` bytes may be written; they count as used from now on."""
        with self._lock:
            taken = min(wanted, self.room)
            self._used = (self._used or 0) + taken
        return taken

    def give_back(self, count: int) -> None:
        """Undoes `take` for bytes that were removed."""
        with self._lock:
            self._used = (self._used or 0) - count

    def new_path(self, name: str) -> Path:
        """Of a file that is not there: `name` with a number in the place of `{}`."""
        paths = (self.path / name.replace("{}", str(number)) for number in count(1))
        return next(path for path in paths if not path.exists())

    def add(self, name: str, data: bytes) -> Path:
        """A new file of `data`, called as by `new_path`. Raises OSError, where there is no room
        too."""
        if (taken := self.take(len(data))) < len(data):
            self.give_back(taken)
            raise OSError(self.full)
        path = reserve(self.new_path(name))
        path.write_bytes(data)
        return path

    def add_log(self, path: Path) -> None:
        """A new file that others write to: it counts with its size at the time of each question."""
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
