"""Where the cursor is after a window has changed its width."""

from __future__ import annotations

from collections.abc import Mapping

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout.screen import Screen

_REFLOWING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WT_SESSION")
_PROGRAMS = frozenset(
    ("iTerm.app", "Apple_Terminal", "WezTerm", "ghostty", "vscode", "rio", "Hyper")
)


def reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is known to break rows that became too long, as most do and xterm, the
    console and screen do not. In doubt it does not: a row too many is better than a lost line."""
    named = any(environ.get(variable) for variable in _REFLOWING)
    return named or environ.get("TERM_PROGRAM", "") in _PROGRAMS


def after_reflow(screen: Screen, cursor: Point, columns: int) -> Point:
    """The place of the cursor below the first row of `screen`, in a window of so many columns."""
    above = sum(-(-_width(screen, row) // columns) or 1 for row in range(cursor.y))
    return Point(x=cursor.x % columns, y=above + cursor.x // columns)


def _width(screen: Screen, row: int) -> int:
    cells = screen.data_buffer[row]
    return max((x + cell.width for x, cell in cells.items() if cell.char.strip()), default=0)


class PromptApplication(Application[None]):
    """Notices by itself, before it draws, that the window has changed its size: on a thread that
    is not the main one prompt_toolkit looks twice a second, and draws in the wrong place until
    then."""

    reflows = False
    _size: Size | None = None

    def notice_size(self) -> None:
        """Be at the first row of the prompt, with nothing below, if the size has changed."""
        size, screen = self.output.get_size(), self.renderer.last_rendered_screen
        changed, self._size = self._size not in (None, size), size
        if not changed or not self.is_running or self._running_in_terminal:
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
