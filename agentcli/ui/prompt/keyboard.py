"""Read the keys of the prompt, including those typed before it had the terminal."""

from __future__ import annotations

import array
import fcntl
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input


class Keyboard(Vt100Input):
    """Input from stdin. While a terminal is not in raw mode, it turns Enter into a newline, which
    the prompt would read as Ctrl-J; such newlines are turned back into Enter."""

    def __init__(self) -> None:
        super().__init__(sys.stdin)
        self._reader = _Reader(sys.stdin.fileno(), encoding=sys.stdin.encoding)
        self.stdin_reader = self._reader

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            self._reader.count_early()
            yield

    @contextmanager
    def cooked_mode(self) -> Iterator[None]:
        with super().cooked_mode():
            yield
        self._reader.count_early()


class _Reader(PosixStdinReader):
    _early = 0
    """Number of unread bytes that were typed before raw mode."""

    def count_early(self) -> None:
        size = array.array("i", [0])
        fcntl.ioctl(self.stdin_fd, termios.FIONREAD, size)
        self._early = size[0]

    def read(self, count: int = 1024) -> str:
        text = super().read(count)
        if self._early > 0:
            self._early -= len(text.encode("utf-8", "surrogateescape"))
            text = text.replace("\n", "\r")
        return text
