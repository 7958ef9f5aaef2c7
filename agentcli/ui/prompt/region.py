"""Output above the prompt, which the prompt's own thread draws."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.layout import FormattedTextControl
from prompt_toolkit.output.vt100 import Vt100_Output

from agentcli.ui.live import terminal_size
from agentcli.ui.plain import terminal_colors
from agentcli.ui.style import Line, clip, paint

MOST_LIVE_ROWS = 4
"""With the input line and the status below it, at most six rows are redrawn."""


class PromptRegion:
    """A region like LiveRegion, for any thread; `wake` makes the prompt draw its rows."""

    def __init__(self, stream: TextIO, wake: Callable[[], None]) -> None:
        self._stream = stream
        self._wake = wake
        self._lock = Lock()
        self._above: list[str] = []
        self.rows: list[str] = []
        self.most_rows = MOST_LIVE_ROWS

    def size(self) -> tuple[int, int]:
        return terminal_size(self._stream)

    def draw(self, rows: Sequence[str], above: str = "") -> None:
        with self._lock:
            if list(rows) == self.rows and not above:
                return
            if above:
                self._above.append(above)
            self.rows = list(rows[-MOST_LIVE_ROWS:])
        self._wake()

    def take_above(self) -> str:
        """Return the text to print above the prompt, and forget it."""
        with self._lock:
            above = "".join(self._above)
            self._above.clear()
        return above


class PromptOutput(Vt100_Output):
    """An output on stderr that does not ask for the cursor's position: some terminals never
    answer."""

    def __init__(self) -> None:
        def size() -> Size:
            columns, rows = terminal_size(sys.stderr)
            return Size(rows, columns)

        super().__init__(sys.stderr, size, term=os.environ.get("TERM"), enable_cpr=False)
        self._held = False
        self._colors = terminal_colors(os.environ)

    def showing(self, lines: Callable[[int], Sequence[Line | str]]) -> FormattedTextControl:
        """Return a control that shows what `lines` returns for the present width; text among them
        is painted already."""

        def painted() -> ANSI:
            width = self.get_size().columns - 1
            rows = (
                row if isinstance(row, str) else paint(clip(row, width), self._colors)
                for row in lines(width)
            )
            return ANSI("\n".join(rows))

        return FormattedTextControl(painted)

    @contextmanager
    def in_one_write(self) -> Iterator[None]:
        """Hold back all output until the context ends, so that nothing flickers."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before
            self.flush()

    def flush(self) -> None:
        if not self._held:
            super().flush()
