"""The last rows of a terminal that may still change; everything above them is never touched."""

from __future__ import annotations

import os
from collections.abc import Sequence
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


class LiveRegion:
    """Rewrites its own rows in place, without a thread, a hidden cursor or an alternate screen.

    Rows are cut to be narrower than the terminal. Each change is one write, so that nothing
    flickers and an interrupt finds the terminal in order.
    """

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self._stream = stream
        self._width = width
        self._rows: list[str] = []

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        columns, rows = terminal_size(self._stream)
        return self._width or columns, rows

    def draw(self, rows: Sequence[str], above: str = "") -> None:
        """Show `rows` in place of those shown before; `above` stays for good, over them."""
        width, height = self.size()
        kept = [_fitted(row, width - 1) for row in rows[-(height - 1) :]] if height > 1 else []
        if kept == self._rows and not above:
            return
        top = self._to_top()
        if above:
            text = f"{top}\x1b[J{above}" + "\n".join(kept)
        else:
            text = top + "\n".join(f"{row}\x1b[K" for row in kept) + "\x1b[J"
        self._rows = kept
        self._stream.write(text)
        self._stream.flush()

    def _to_top(self) -> str:
        """Rows count once, although a window made narrower since may have wrapped some: terminals
        differ in where that leaves the cursor, and a stale row is better than a lost line."""
        height = len(self._rows)
        return f"\r\x1b[{height - 1}A" if height > 1 else "\r" if height else ""


def _fitted(row: str, width: int) -> str:
    return row if cells(row) <= width else plain(clip([Span(bare(row))], width))
