"""Write lines to a stream: spacing, colours, encoding, and the live region if there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Protocol, TextIO

from agentcli.ui import links
from agentcli.ui.live import LiveRegion
from agentcli.ui.plain import is_plain, terminal_colors
from agentcli.ui.style import Colors, Line, clip, paint, wrap

Kind = Literal["", "text", "user", "thought", "call", "note", "end"]

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SET_APART = frozenset({"text", "user", "thought", "end"})
_TO_ASCII = str.maketrans("•…·⋮→✗⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*~-:>x|/-\\|/-\\|/")
_UNCLIPPED_WIDTH = 200


class Region(Protocol):
    """The live rows below the permanent output: a LiveRegion, or the rows above a prompt. It shows
    the last `most_rows` of what is drawn."""

    most_rows: int

    def size(self) -> tuple[int, int]: ...
    def draw(self, rows: Sequence[str], above: str = "") -> None: ...


class Screen:
    """The output of a session's renderer. `rich` means that the stream is a terminal that can be
    drawn on, `live` that rows on it may be redrawn. With `colors` the stream is for a program that
    shows it on a terminal, such as a pager.

    Lines given to `put` wait for `flush`, which shows them above the live rows in one write.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        width: int | None = None,
        live: bool = True,
        colors: Colors | None = None,
        region: Region | None = None,
    ) -> None:
        drawable = stream.isatty() and not is_plain(os.environ)
        self.rich = drawable or colors is not None
        self.live = drawable and live
        self.colors = colors or (terminal_colors(os.environ) if drawable else "none")
        self.links = drawable and links.terminal_opens_links()
        self._stream = stream
        self._region: Region = region or LiveRegion(stream, width)
        self._ascii = "utf" not in (getattr(stream, "encoding", None) or "utf-8").lower()
        self._above: list[str] = []
        self._last: Kind = ""

    @property
    def width(self) -> int:
        """The most columns of a line."""
        return self._region.size()[0] - 1 if self.rich else _UNCLIPPED_WIDTH

    @property
    def live_rows(self) -> int:
        """The most rows that can be live."""
        return self._region.most_rows

    def gap(self, kind: Kind) -> bool:
        """Return whether an empty line belongs between the last lines put and lines of `kind`."""
        if not self._last or (kind == self._last and kind != "text"):
            return False
        return kind in _SET_APART or self._last in _SET_APART

    def put(self, kind: Kind, lines: Sequence[Line], *, whole: bool = True) -> None:
        """Add lines that stay. With `whole` the terminal wraps long ones, else they are cut."""
        if not whole and self.rich:
            width = self.width
            lines = [clip(line, width) for line in lines]
        self.put_rows(kind, [paint(line, self.colors) for line in lines])

    def put_words(self, kind: Kind, lines: Sequence[Line]) -> None:
        """Add lines of prose that stay, broken between words."""
        if self.rich:
            width = self.width
            lines = [row for line in lines for row in wrap(line, width)]
        self.put(kind, lines)

    def put_rows(self, kind: Kind, rows: Sequence[str], *, joined: bool = False) -> None:
        """Add rows that stay and are painted already; `joined` ones continue the last rows put."""
        if not rows:
            return
        if self.gap(kind) and not (joined and kind == self._last):
            self._above.append("")
        self._above += rows
        self._last = kind

    def row(self, line: Line) -> str:
        """Return a line for the live region."""
        return paint(clip(line, self.width), self.colors)

    def flush(self, live_rows: Sequence[str] = ()) -> None:
        """Write the waiting lines, and show `live_rows` below them in place of the old ones."""
        above = "".join(f"{row}\n" for row in self._above)
        self._above.clear()
        if self._ascii:
            above = self._encodable(above)
            live_rows = [self._encodable(row) for row in live_rows]
        if self.live:
            self._region.draw(live_rows, above)
        elif above:
            self._stream.write(above)
            self._stream.flush()

    def suspend(self) -> None:
        """Clear the live rows, as the program is about to stop; for signal handlers."""
        if isinstance(self._region, LiveRegion):
            self._region.suspend()

    def resume(self) -> None:
        """Continue after the program was stopped."""
        if isinstance(self._region, LiveRegion):
            self._region.resume()

    def _encodable(self, text: str) -> str:
        encoding = self._stream.encoding
        return text.translate(_TO_ASCII).encode(encoding, "replace").decode(encoding)
