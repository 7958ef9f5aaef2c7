"""A program in a pty whose screen is that of a terminal emulator, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pexpect
import pyte

from tests.conftest import LIMIT_S
from tests.preloaded import spawn


class Emulated:
    """Types and looks; never waits for a time, only for what is to be seen."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        """All that the program wrote."""
        self.child = spawn(
            command, cwd=str(cwd), env=env, dimensions=(rows, columns), timeout=LIMIT_S
        )

    @property
    def rows(self) -> list[str]:
        """What is on the screen, without blanks at the ends of rows."""
        return [row.rstrip() for row in self.screen.display]

    def until(self, seen: str | Callable[[list[str]], bool]) -> list[str]:
        """The screen as soon as `seen` is on it, or holds of it."""
        there = seen if callable(seen) else lambda rows: any(seen in row for row in rows)
        deadline = time.monotonic() + LIMIT_S
        while not there(self.rows):
            try:
                if time.monotonic() > deadline:
                    raise pexpect.TIMEOUT("the program goes on writing")
                self._feed(self.child.read_nonblocking(65_536, LIMIT_S))
            except (pexpect.EOF, pexpect.TIMEOUT) as error:
                screen = "\n".join(self.rows)
                raise AssertionError(f"{seen!r} was never shown:\n{screen}") from error
        return self.rows

    def type(self, keys: str) -> Emulated:
        self.child.send(keys)
        return self

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.child.child_fd, termios.TIOCSWINSZ, size)

    def ended(self) -> int | None:
        """The exit code; the screen is that of the end."""
        while True:
            try:
                self._feed(self.child.read_nonblocking(65_536, LIMIT_S))
            except pexpect.EOF:
                break
        self.child.close()
        return self.child.exitstatus

    def hang_up(self) -> int | None:
        """The window is closed; the exit code."""
        process = self.child.ptyproc
        os.close(self.child.child_fd)
        self.child.closed = process.closed = True
        deadline = time.monotonic() + LIMIT_S
        while process.isalive():
            assert time.monotonic() < deadline, "it outlives its terminal"
        return process.exitstatus

    def close(self) -> None:
        self.child.close(force=True)

    def _feed(self, data: bytes) -> None:
        self.raw += data
        self._stream.feed(data)
