"""The last rows of a terminal that may still change; everything above them is never touched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from agentcli.ui.style import Span, bare, cells, clip, plain


def terminal_size(terminal: TextIO | int) -> tuple[int, int]:
    """Columns and rows; the usual ones where `terminal`, a stream or descriptor, has no size."""
    try:
        fd = terminal if isinstance(terminal, int) else terminal.fileno()
        columns, rows = os.get_terminal_size(fd)
    except (OSError, ValueError):
        columns = rows = 0
    return columns or 80, rows or 24


MOST_ROWS = 6
"""That are rewritten while the agent works."""
_CLEAR = "\r\x1b[C\x1b[J\r\x1b[K"
"""All from this row on, begun in its second column: tmux would save a screen that is cleared from
its first, and the rows with it, into the scrollback."""


class LiveRegion:
    """Rewrites its own rows in place, without a thread, a hidden cursor or an alternate screen.

    Between two changes the cursor stands at the beginning of the first row. From there on all can
    be cleared, whatever a change of the window's size has done to the rows below. Rows are cut to
    be narrower than the terminal. Each change is one write, so that nothing flickers and an
    interrupt finds the terminal in order. It never grows taller than `most_rows` or the terminal.
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
        """Columns and rows of the terminal."""
        columns, rows = terminal_size(self._stream)
        return self._width or columns, rows

    def draw(self, rows: Sequence[str], above: str = "") -> None:
        """Show the last of `rows` in place of those shown before; `above` stays for good, over
        them."""
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
        """The program is about to stop: its rows go. Made for signal handlers, so it writes past
        the buffers of the stream, which may be in use."""
        if self._rows:
            with suppress(OSError, ValueError):
                os.write(self._stream.fileno(), _CLEAR.encode())

    def resume(self) -> None:
        """The program goes on, wherever the cursor is by now."""
        self._rows = []


def _back_to_top(height: int) -> str:
    return f"\r\x1b[{height - 1}A" if height > 1 else "\r" if height else ""


def _fitted(row: str, width: int) -> str:
    return row if cells(row) <= width else plain(clip([Span(bare(row))], width))
