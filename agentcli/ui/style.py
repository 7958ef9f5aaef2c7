"""Lines of styled text as plain data, and their form for a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

Style = Literal[
    "", "dim", "bold", "red", "green", "yellow", "cyan", "magenta", "red bold", "reverse"
]
Colors = Literal["full", "mono", "none"]
"""`mono` keeps weight (bold, dim) without colours, as NO_COLOR asks."""

_CODES: dict[str, str] = {
    "dim": "2",
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "magenta": "35",
    "red bold": "31;1",
    "reverse": "7",
}
_MONO_CODES: dict[str, str] = {"dim": "2", "bold": "1", "red bold": "1", "reverse": "7"}
_EMOJI_SELECTOR = "\ufe0f"
_PAINT = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[!-~]*?\x1b\\")


_WORD = re.compile(r" +|[^ ]+ *")


class Span(NamedTuple):
    """Text in one style. `link` is its target on terminals with links, as made by `ui.links`."""

    text: str
    style: Style = ""
    link: str = ""


Line = Sequence[Span]


def plain(line: Line) -> str:
    return "".join(span.text for span in line)


def paint(line: Line, colors: Colors) -> str:
    """Return the line with escape codes for its styles; its text must be printable already."""
    if colors == "none":
        return plain(line)
    codes = _CODES if colors == "full" else _MONO_CODES
    parts = []
    for text, style, link in line:
        code = codes.get(style)
        painted = f"\x1b[{code}m{text}\x1b[0m" if code and text else text
        parts.append(f"\x1b]8;;{link}\x1b\\{painted}\x1b]8;;\x1b\\" if link else painted)
    return "".join(parts)


def cells(text: str) -> int:
    """Return how many columns `text`, painted or not, takes; in doubt (joined emoji) the most."""
    text = without_escapes(text)
    return len(text) if text.isascii() else sum(map(_width, text))


@lru_cache(maxsize=4096)
def _width(char: str) -> int:
    if char == _EMOJI_SELECTOR:
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(line: Line, width: int) -> Line:
    """Return the line cut to `width` columns, with `…` where text is missing."""
    expanded = [span._replace(text=span.text.expandtabs(4)) for span in line]
    if cells(plain(expanded)) <= width:
        return expanded
    room = max(width - 1, 0)
    kept: list[Span] = []
    for span in expanded:
        taken = span.text[: fitting(span.text, room)]
        kept.append(span._replace(text=taken))
        if taken != span.text:
            break
        room -= cells(taken)
    return [*kept, Span("…", "dim")]


def wrap(line: Line, width: int) -> list[Line]:
    """Break the line into rows between words. Text that begins with a blank is not broken: it is
    indented, so something to copy. A word wider than `width` stays whole."""
    rows: list[list[Span]] = [[]]
    used = 0
    for span in line:
        for number, text in enumerate(span.text.split("\n")):
            if number:
                rows.append([])
                used = 0
            as_it_is = text.startswith(" ") and not used
            for word in [text] if as_it_is else _WORD.findall(text):
                size = cells(word.rstrip(" "))
                if used and size and used + size > width:
                    rows.append([])
                    used = 0
                rows[-1].append(span._replace(text=word))
                used += cells(word)
    return [_merged(row) for row in rows]


def _merged(words: Iterable[Span]) -> Line:
    """Merge neighbouring spans of the same look, and remove blanks at the end."""
    spans: list[Span] = []
    for word in words:
        if spans and spans[-1][1:] == word[1:]:
            spans[-1] = word._replace(text=spans[-1].text + word.text)
        else:
            spans.append(word)
    if spans:
        spans[-1] = spans[-1]._replace(text=spans[-1].text.rstrip(" "))
    return spans


def without_escapes(text: str) -> str:
    """Return painted text without its escape codes."""
    return _PAINT.sub("", text)


def fitting(text: str, width: int) -> int:
    """Return how many characters from the start of `text` fit into `width` columns."""
    if text.isascii():
        return min(len(text), width)
    used = 0
    for index, char in enumerate(text):
        used += _width(char)
        if used > width:
            return index
    return len(text)


def joined(*parts: Sequence[Span]) -> list[Span]:
    """Return the parts that are not empty as one line, with ` · ` between them."""
    line: list[Span] = []
    for part in filter(plain, parts):
        line += [Span(" · ", "dim"), *part] if line else part
    return line


def indent(lines: Iterable[Line], by: int = 4) -> list[Line]:
    return [[Span(" " * by), *line] for line in lines]
