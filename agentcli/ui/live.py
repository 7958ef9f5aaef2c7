"""Redraw the last rows of a terminal; everything above them is never touched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from agentcli.ui.style import Span, cells, clip, plain, without_escapes


def terminal_size(terminal: TextIO | int) -> tuple[int, int]:
    """Return columns and rows of `terminal`, a stream or descriptor; 80 by 24 if it has no size."""
    try:
        fd = terminal if isinstance(terminal, int) else terminal.fileno()
        columns, rows = os.get_terminal_size(fd)
    except (OSError, ValueError):
        columns = rows = 0
    return columns or 80, rows or 24


MOST_ROWS = 6
"""Most rows that are redrawn while the agent works."""
_CLEAR = "\r\x1b[C\x1b[J\r\x1b[K"
"""Clears everything from this row on, starting in its second column: if the screen is cleared from
the very first column, tmux saves the rows into the scrollback."""


class LiveRegion:
    """Redraws its own rows in place, without a thread, a hidden cursor or an alternate screen.

    Between changes the cursor is at the beginning of the first row, so that everything from there
    on can be cleared, whatever a resize of the window did to the rows. Rows are cut to be narrower
    than the terminal. Each change is a single write, so that nothing flickers and an interrupt
    leaves the terminal in order. The region is never taller than `most_rows` or the terminal.
    """

    def __init__(
        self, stream: TextIO, width: int | None = None, *, most_rows: int = MOST_ROWS
    ) -> None:
        self._stream = stream
        self._width = width
        self.most_rows = most_rows
        self._rows: list[str] = []
        self._drawn_at = (0, 0)

    def size(self) -> tuple[int, int]:
        """Return the columns and rows of the terminal."""
        columns, rows = terminal_size(self._stream)
        return self._width or columns, rows

    def draw(self, rows: Sequence[str], above: str = "") -> None:
        """Show the last of `rows` in place of the previous ones; `above` is printed over them and
        stays."""
        size = width, height = self.size()
        most = min(self.most_rows, height - 1)
        kept = [_fitted(row, width - 1) for row in rows[-most:]] if most > 0 else []
        resized = bool(self._rows) and size != self._drawn_at
        if kept == self._rows and not above and not resized:
            return
        if above or resized or not kept:
            clear = _CLEAR if self._rows else ""
            text = f"{clear}{above}" + "\n".join(kept)
        else:
            text = "\r" + "\n".join(f"{row}\x1b[K" for row in kept) + "\x1b[J"
        self._rows, self._drawn_at = kept, size
        self._stream.write(text + _back_to_top(len(kept)))
        self._stream.flush()

    def suspend(self) -> None:
        """Clear the rows, as the program is about to stop. This is for signal handlers, so it
        bypasses the stream's buffers, which may be in use."""
        if self._rows:
            with suppress(OSError, ValueError):
                os.write(self._stream.fileno(), _CLEAR.encode())

    def resume(self) -> None:
        """Continue after a stop, wherever the cursor is by now."""
        self._rows = []


def _back_to_top(height: int) -> str:
    return f"\r\x1b[{height - 1}A" if height > 1 else "\r" if height else ""


def _fitted(row: str, width: int) -> str:
    return row if cells(row) <= width else plain(clip([Span(without_escapes(row))], width))
