"""A terminal that a person answers at: opened, read and written without anything going wrong."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

HUNG_UP = "the terminal was closed"
_ENDED = "the end of input was typed"
_RETRY_S = 0.25
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Closed(Exception):
    """Nobody can answer at this terminal any more; says why."""


def open_terminal(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def open_patiently(path: str, timeout_s: float) -> int:
    """Raises Closed when there has been no terminal for as long as one is waited for."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return open_terminal(path)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise Closed(HUNG_UP) from error
            _give_way(timeout_s)


def read_some(fd: int, timeout_s: float, tick_s: float | None = None) -> bytes:
    """What was typed, b"" after `tick_s` without anything. Raises Closed at the end of input, and
    when the terminal has hung up for `timeout_s`."""
    deadline = None
    while True:
        if tick_s is not None and not is_ready(fd, tick_s):
            return b""
        chunk = _read(fd)
        if chunk:
            return chunk
        if chunk is not None and not _hung_up(fd):
            write(fd, "\n")
            raise Closed(_ENDED)
        deadline = deadline or time.monotonic() + timeout_s
        if time.monotonic() >= deadline:
            raise Closed(HUNG_UP)
        _give_way(timeout_s)


def read_line(fd: int, timeout_s: float) -> str:
    """Raises Closed, as `read_some` does."""
    data = b""
    while not data.endswith(b"\n"):
        data += read_some(fd, timeout_s)
    return data.decode("utf-8", "replace")


def is_ready(fd: int, wait_s: float) -> bool:
    """Whether there is something to read, or the terminal is gone."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))


def write(fd: int, text: str) -> None:
    """What can't be shown because the terminal is gone is found out when an answer is read."""
    _write(fd, text.encode("utf-8", "replace"))


def _write(fd: int, data: bytes) -> None:
    with suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]


def stream(fd: int) -> TextIO:
    """`fd` to be written to as `write` does."""
    raw = _Patient(fd, "w", closefd=False)
    # Without a buffer: an interrupt would leave in it what is on the screen already.
    return io.TextIOWrapper(raw, "utf-8", "replace", newline="", write_through=True)


@contextmanager
def line_mode(fd: int) -> Iterator[None]:
    """The terminal reads whole lines with echo, as a program before may have left it otherwise.

    What was typed before the question is dropped: it can't have been meant as an answer. That the
    terminal has hung up is found out when an answer is read.
    """
    on = termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG
    with _mode(fd, on, 0):
        yield


class KeyMode:
    """The terminal hands over each key as it is pressed, without echo, while this is entered.
    What was typed before is dropped, and so is the rest when an answer is there. ^C stays a
    signal; ^Z is a key, so that the screen can be cleared before `suspend`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mode = self._entered()

    def __enter__(self) -> None:
        self._mode.__enter__()

    def __exit__(self, *failure: object) -> None:
        self._mode.__exit__(None, None, None)

    def suspend(self) -> None:
        """Give the terminal back, stop until the shell lets this go on, and take it again."""
        self.__exit__()
        os.kill(0, signal.SIGTSTP)
        self._mode = self._entered()
        self.__enter__()

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with _mode(self._fd, termios.ISIG, termios.ICANON | termios.ECHO | termios.IEXTEN):
            write(self._fd, _PASTE_ON)
            try:
                yield
            finally:
                write(self._fd, _PASTE_OFF)


@contextmanager
def _mode(fd: int, on: int, off: int) -> Iterator[None]:
    """The terminal's local modes with those bits; what is unread is dropped before and after."""
    before = None
    with suppress(termios.error):
        before = termios.tcgetattr(fd)
        mode = termios.tcgetattr(fd)
        mode[0] |= termios.ICRNL
        mode[1] |= termios.OPOST | termios.ONLCR
        mode[3] = mode[3] & ~off | on
        if not on & termios.ICANON:
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(fd, termios.TCSAFLUSH, mode)
    try:
        yield
    finally:
        if before is not None:
            with suppress(termios.error):
                termios.tcsetattr(fd, termios.TCSAFLUSH, before)


class _Patient(io.FileIO):
    def write(self, data: Any, /) -> int:
        _write(self.fileno(), bytes(data))
        return len(data)


def _give_way(timeout_s: float) -> None:
    """To a hang-up signal that is on its way: it ends the turn and leaves the question open."""
    time.sleep(min(_RETRY_S, timeout_s))


def _read(fd: int) -> bytes | None:
    """None where there is no terminal to read from."""
    try:
        return os.read(fd, 4096)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.ENXIO):
            raise
        return None


def _hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
