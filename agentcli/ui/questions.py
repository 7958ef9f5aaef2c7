"""Ask the user at the terminal questions with one-line answers; secrets are not echoed."""

from __future__ import annotations

import os
from contextlib import suppress

from agentcli.ui.approval_terminal import TTY, Closed, line_mode, open_terminal, read_line, write
from agentcli.ui.sanitize import folded, printable


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
