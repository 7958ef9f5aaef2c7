"""Terminals: what they can do, the rows that are redrawn, and the lines that stay."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Literal, Protocol, TextIO
from urllib.parse import quote

from agentcli.ui.text import Colors, Line, Span, cells, clip, paint, plain, without_escapes, wrap


def is_plain(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal can't be drawn on, or must not be (`make_plain`)."""
    return environ.get("TERM", "") in ("", "dumb", "unknown")


def make_plain() -> None:
    """Stop redrawing from now on, in this process and in programs that it starts."""
    os.environ["TERM"] = "dumb"


def terminal_colors(environ: Mapping[str, str]) -> Colors:
    """Return the colours of the terminal: none on a plain one, no hues under NO_COLOR."""
    if is_plain(environ):
        return "none"
    return "mono" if environ.get("NO_COLOR") else "full"


URL = re.compile(r"https?://[^\s<>\"'`│]*[^\s<>\"'`│.,:;!?)\]}*_~]")
"""A URL within text, without the punctuation of the sentence around it."""

_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "rio", "Tabby"})
_TERMS_WITH_LINKS = frozenset(
    {"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "wezterm"}
)
_LONGEST = 2_000


def terminal_opens_links(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal is known to support links. FORCE_HYPERLINK overrides this: 0 or
    empty means no, anything else yes."""
    forced = environ.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced not in ("", "0")
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or program == "tmux":
        found = re.match(r"(\d+)\.(\d+)", environ.get("TERM_PROGRAM_VERSION", ""))
        version = tuple(map(int, found.groups())) if found else ()
        return program == "tmux" and version >= (3, 4)
    if term.startswith(("screen", "dumb", "linux")):
        return False
    vte = environ.get("VTE_VERSION", "")
    known = program in _PROGRAMS or term in _TERMS_WITH_LINKS or "WT_SESSION" in environ
    return known or (vte.isdecimal() and int(vte) >= 5_000)


def url_link(url: str) -> str:
    """Return the URL of a link, in ASCII; empty if it is no web address or too long."""
    link = quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")
    return link if re.match(r"https?://\w", link) and len(link) <= _LONGEST else ""


def path_link(path: str) -> str:
    """Return a link to a file by its absolute path; empty for a relative path."""
    if not path.startswith("/") or path.startswith("//"):
        return ""
    link = f"file://{_host()}{quote(path, errors='surrogateescape')}"
    return link if len(link) <= _LONGEST else ""


@cache
def _host() -> str:
    """Return this machine's name: terminals only open paths of their own machine."""
    return quote(socket.gethostname())


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
        self, stream: TextIO, width: int | None = None, most_rows: int = MOST_ROWS
    ) -> None:
        self._stream = stream
        self._width = width
        self.most_rows = most_rows
        self._rows: list[str] = []
        self._drawn_at = (0, 0)

    def size(self) -> tuple[int, int]:
        columns, rows = terminal_size(self._stream)
        return self._width or columns, rows

    def draw(self, rows: Sequence[str], above: str = "") -> None:
        """Show the last of `rows` in place of the previous ones; `above` is printed over them and
        stays."""
        size = width, height = self.size()
        most = min(self.most_rows, height - 1)
        kept = [
            row if cells(row) <= width - 1 else plain(clip([Span(without_escapes(row))], width - 1))
            for row in (rows[-most:] if most > 0 else [])
        ]
        resized = bool(self._rows) and size != self._drawn_at
        if kept == self._rows and not above and not resized:
            return
        if above or resized or not kept:
            clear = _CLEAR if self._rows else ""
            text = f"{clear}{above}" + "\n".join(kept)
        else:
            text = "\r" + "\n".join(f"{row}\x1b[K" for row in kept) + "\x1b[J"
        self._rows, self._drawn_at = kept, size
        up = f"\x1b[{len(kept) - 1}A" if len(kept) > 1 else ""
        self._stream.write(f"{text}\r{up}" if kept else text)
        self._stream.flush()

    def suspend(self) -> None:
        """Clear the rows, as the program is about to stop. This is for signal handlers, so it
        bypasses the stream's buffers, which may be in use."""
        if self._rows:
            with suppress(OSError, ValueError):
                os.write(self._stream.fileno(), _CLEAR.encode())

    def resume(self) -> None:
        """Continue after a stop, from the present position of the cursor."""
        self._rows = []


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
        self.links = drawable and terminal_opens_links()
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
