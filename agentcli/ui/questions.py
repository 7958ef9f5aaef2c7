"""Ask the user at the terminal questions with one-line answers; secrets are not echoed."""

from __future__ import annotations

import os
import sys
import termios
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentcli.ui.sanitize import printable

_TTY = "/dev/tty"


def is_there() -> bool:
    """Return whether there is a user to ask: stderr is a terminal and the controlling one opens."""
    try:
        Questions().close()
    except OSError:
        return False
    return sys.stderr.isatty()


class Questions:
    """Asks on the controlling terminal, wherever stdin and stdout go. Raises OSError if there is
    none. An interrupt passes through."""

    def __init__(self) -> None:
        self._fd = os.open(_TTY, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def __enter__(self) -> Questions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    def tell(self, text: str = "", column: int | None = None) -> None:
        """Print `text`. Rows that are too long continue at `column`, by default at their own
        indentation."""
        for row in printable(text).split("\n"):
            self._write(f"{self._wrapped(row, column)}\n")

    def ask(self, question: str) -> str | None:
        """Return the answer without surrounding blanks; None at the end of input."""
        with self._lines(echo=True):
            return self._answer(question)

    def ask_secret(self, question: str) -> str | None:
        with self._lines(echo=False):
            answer = self._answer(question)
        self._write("\n")
        return answer

    def agrees(self, question: str, *, by_default: bool = True) -> bool:
        """Return whether the answer is yes; Enter alone means `by_default`."""
        answer = self.ask(f"{question} [{'Y/n' if by_default else 'y/N'}] ")
        if answer == "":
            return by_default
        return answer is not None and answer.lower() in ("y", "yes")

    def _answer(self, question: str) -> str | None:
        self._write(printable(question))
        data = b""
        while not data.endswith(b"\n"):
            try:
                chunk = os.read(self._fd, 4096)
            except BaseException:
                self._write("\n")
                raise
            if not chunk:
                self._write("\n")
                return None
            data += chunk
        return data.decode("utf-8", "replace").strip()

    def _wrapped(self, row: str, column: int | None) -> str:
        indent = " " * (len(row) - len(row.lstrip()) if column is None else column)
        with suppress(OSError):
            if 0 < (width := os.get_terminal_size(self._fd).columns) < len(row):
                return textwrap.fill(
                    row,
                    width,
                    subsequent_indent=indent,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        return row

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._fd, data) :]

    @contextmanager
    def _lines(self, *, echo: bool) -> Iterator[None]:
        """Make the terminal read whole lines, whatever mode an earlier program left it in. Input
        typed before the question is dropped, as it can't be meant as its answer."""
        before = termios.tcgetattr(self._fd)
        mode = termios.tcgetattr(self._fd)
        mode[0] |= termios.ICRNL
        mode[1] |= termios.OPOST | termios.ONLCR
        mode[3] |= termios.ICANON | termios.ISIG | termios.ECHOE | termios.ECHOK
        mode[3] = mode[3] | termios.ECHO if echo else mode[3] & ~termios.ECHO
        termios.tcsetattr(self._fd, termios.TCSAFLUSH, mode)
        try:
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, before)
