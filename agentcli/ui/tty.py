"""Open, read and write the terminal at which the user answers, even if it hangs up meanwhile."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentcli.ui.text import folded, printable

TTY = "/dev/tty"
HUNG_UP = "the terminal was closed"
ENDED = "the end of input was typed"
_RETRY_S = 0.25
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Closed(Exception):
    """Nobody can answer at this terminal any more; the text says why."""


def open_terminal(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def can_ask(path: str = TTY) -> bool:
    """Return whether there is a user to ask: stderr is a terminal and `path` opens."""
    if not sys.stderr.isatty():
        return False
    try:
        os.close(open_terminal(path))
    except OSError:
        return False
    return True


def open_patiently(path: str, timeout_s: float) -> int:
    """Open the terminal, waiting up to `timeout_s` for one. Raises Closed if there is none."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return open_terminal(path)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise Closed(HUNG_UP) from error
            _give_way(timeout_s)


def read_some(fd: int, timeout_s: float, tick_s: float | None = None) -> bytes:
    """Return what was typed, or b"" after `tick_s` without input. Raises Closed at the end of
    input, and if the terminal has been hung up for `timeout_s`."""
    deadline = None
    while True:
        if tick_s is not None and not is_ready(fd, tick_s):
            return b""
        chunk: bytes | None = None
        try:
            chunk = os.read(fd, 4096)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ENXIO):
                raise
        if chunk:
            return chunk
        if chunk is not None and not _poll(fd, 0) & (select.POLLHUP | select.POLLERR):
            write(fd, "\n")
            raise Closed(ENDED)
        deadline = deadline or time.monotonic() + timeout_s
        if time.monotonic() >= deadline:
            raise Closed(HUNG_UP)
        _give_way(timeout_s)


def read_line(fd: int, timeout_s: float) -> str:
    """Return the next line. Raises Closed, as `read_some` does."""
    data = b""
    while not data.endswith(b"\n"):
        data += read_some(fd, timeout_s)
    return data.decode("utf-8", "replace")


def is_ready(fd: int, wait_s: float) -> bool:
    """Return whether there is something to read, or the terminal is gone."""
    return _poll(fd, wait_s) != 0


def write(fd: int, text: str) -> None:
    """Write `text`, ignoring errors: that the terminal is gone shows when an answer is read."""
    data = text.encode("utf-8", "replace")
    with suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]


class TTYStream(io.StringIO):
    """A stream that writes to `fd` as `write` does. It keeps nothing in a buffer, as an interrupt
    could leave text there that is already on the screen."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def write(self, text: str, /) -> int:
        write(self._fd, text)
        return len(text)


@contextmanager
def line_mode(fd: int, *, echo: bool = True) -> Iterator[None]:
    """Make the terminal read whole lines, whatever mode an earlier program left it in.

    Input typed before the question is dropped, as it can't be meant as an answer. That the terminal
    has hung up shows when an answer is read.
    """
    on = termios.ICANON | termios.ECHOE | termios.ECHOK | termios.ISIG
    with _mode(fd, on | termios.ECHO, 0) if echo else _mode(fd, on, termios.ECHO):
        yield


class KeyMode:
    """A context in which the terminal passes on each key as it is pressed, without echo. Input
    typed before it, or left unread at its end, is dropped. ^C stays a signal; ^Z is a key, so that
    the screen can be cleared before `suspend`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mode = self._entered()

    def __enter__(self) -> None:
        self._mode.__enter__()

    def __exit__(self, *failure: object) -> None:
        self._mode.__exit__(None, None, None)

    def suspend(self) -> None:
        """Restore the terminal, stop until the shell continues the program, and enter again."""
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
    """Switch bits of the terminal's local modes on or off; drop unread input before and after."""
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


def _give_way(timeout_s: float) -> None:
    """Let a pending hang-up signal arrive: it ends the turn and leaves the question open."""
    time.sleep(min(_RETRY_S, timeout_s))


def _poll(fd: int, wait_s: float) -> int:
    """Return the state of the terminal within that time, as bits of select.poll."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return next((events for _, events in poll.poll(wait_s * 1000)), 0)


class Questions:
    """Asks on the controlling terminal, wherever stdin and stdout go. Raises OSError if there is
    none. An interrupt passes through."""

    def __init__(self) -> None:
        self._fd = open_terminal(TTY)

    def __enter__(self) -> Questions:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def tell(self, text: str = "", column: int | None = None) -> None:
        """Print `text`. Rows that are too long continue at `column`, by default at their own
        indentation."""
        shown = printable(text)
        with suppress(OSError):
            if (width := os.get_terminal_size(self._fd).columns) > 0:
                shown = folded(shown, width, column)
        write(self._fd, f"{shown}\n")

    def ask(self, question: str) -> str | None:
        """Return the answer without surrounding blanks; None at the end of input."""
        with line_mode(self._fd):
            return self._answer(question)

    def ask_secret(self, question: str) -> str | None:
        with line_mode(self._fd, echo=False):
            answer = self._answer(question)
        write(self._fd, "\n")
        return answer

    def agrees(self, question: str, *, by_default: bool = True) -> bool:
        """Return whether the answer is yes; Enter alone means `by_default`."""
        answer = self.ask(f"{question} [{'Y/n' if by_default else 'y/N'}] ")
        if answer == "":
            return by_default
        return answer is not None and answer.lower() in ("y", "yes")

    def _answer(self, question: str) -> str | None:
        write(self._fd, printable(question))
        try:
            return read_line(self._fd, 0).strip()
        except Closed:
            return None
        except BaseException:
            write(self._fd, "\n")
            raise
