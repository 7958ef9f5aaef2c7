"""What the prompt draws: output above it, and its own rows when a window changes its width."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.layout import FormattedTextControl, Layout
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

from agentcli.ui.screen import terminal_colors, terminal_size
from agentcli.ui.text import Line, clip, paint

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


_REFLOWING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WT_SESSION")
_PROGRAMS = frozenset(
    ("iTerm.app", "Apple_Terminal", "WezTerm", "ghostty", "vscode", "rio", "Hyper")
)


def reflows(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to rewrap rows that became too long. Most do; xterm, the
    console and screen do not. In doubt the answer is no: a stray row is better than a lost one."""
    named = any(environ.get(variable) for variable in _REFLOWING)
    return named or environ.get("TERM_PROGRAM", "") in _PROGRAMS


def after_reflow(screen: Screen, cursor: Point, columns: int) -> Point:
    """Return the cursor's position, relative to the first row of `screen`, in a window that is now
    `columns` wide."""
    above = 0
    for row in range(cursor.y):
        cells = screen.data_buffer[row]
        width = max((x + cell.width for x, cell in cells.items() if cell.char.strip()), default=0)
        above += -(-width // columns) or 1
    return Point(x=cursor.x % columns, y=above + cursor.x // columns)


class ParkingRenderer(Renderer):
    """A renderer that hides the terminal's cursor in the first row between redraws while `parks`.

    A window reports its new size a moment after it has rewrapped the rows. Anything drawn in
    between, with the old size, would leave rows behind unless it starts at the first row.
    """

    parks = False

    def __init__(self, style: BaseStyle, output: PromptOutput, when: Callable[[], bool]) -> None:
        super().__init__(style, output)
        self._when = when

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        assert isinstance(self.output, PromptOutput)
        self.parks = not is_done and self._when()
        with self.output.in_one_write():
            super().render(app, layout, is_done)
            if self.parks and self._cursor_pos.y:
                self.output.hide_cursor()
                self.output.write_raw("\r")
                self.output.cursor_up(self._cursor_pos.y)
                self._cursor_pos = Point(x=0, y=0)

    def erase(self, leave_alternate_screen: bool = True) -> None:
        super().erase(leave_alternate_screen)
        self.output.show_cursor()
        self.output.flush()


class DrawnCursor(Processor):
    """Draws a cursor in the text while the terminal's own cursor is parked."""

    def __init__(self, is_shown: Callable[[], bool]) -> None:
        self._is_shown = is_shown

    def apply_transformation(self, line: TransformationInput) -> Transformation:
        document = line.document
        if not self._is_shown() or line.lineno != document.cursor_position_row:
            return Transformation(line.fragments)
        cells = explode_text_fragments([*line.fragments, ("", " ")])
        at = line.source_to_display(document.cursor_position_col)
        cells[at] = (f"{cells[at][0]} reverse", cells[at][1])
        return Transformation(cells)


class PromptApplication(Application[None]):
    """An application that checks for a new window size before each redraw. Outside of the main
    thread, prompt_toolkit checks only twice a second, and draws in the wrong place until then."""

    reflows = False
    _size: Size | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether the prompt's rows are on the screen."""
        return self.is_running and not self._running_in_terminal

    def notice_size(self) -> None:
        """If the size has changed, go to the prompt's first row and clear everything below."""
        size, screen = self.output.get_size(), self.renderer.last_rendered_screen
        changed, self._size = self._size not in (None, size), size
        if not changed or not self.is_drawn:
            return
        if self.reflows and screen is not None:
            cursor = after_reflow(screen, self.renderer._cursor_pos, size.columns)
            self.renderer._cursor_pos = cursor
        self.renderer.erase(leave_alternate_screen=False)

    def _redraw(self, render_as_done: bool = False) -> None:
        self.notice_size()
        super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        self.notice_size()
        super()._on_resize()
