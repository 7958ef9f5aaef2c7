"""Show text that the user has to decide on: wrapped, never cut, every character visible."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from agentcli.ui.sanitize import codepoint, printable
from agentcli.ui.style import Line, Span, Style, fitting

_PICTURES = re.compile("[\u2400-\u2426]")
"""Signs that stand for control characters here; where a text itself has one, its code is shown."""

_PADDING = re.compile(r" {24,}")
_AT_END = re.compile(r"(?<! ) +$")
_BLANKS = re.compile(" +")
_NUMBER = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+")
_LOOK_ALIKE = re.compile("[\u0370-\u058f\u13a0-\u13ff\uab70-\uabbf]")
"""Letters that can pass for Latin ones: Greek, Cyrillic, Armenian, Cherokee."""

_OVERLAYS = re.compile("[\u0334-\u0338\u20d0-\u20ff]")
_MOST_ACCENTS = 2
_MOST_BLANK_LINES = 4
_MOST_PER_COLUMN = 4
"""Most characters of visible text per column: a letter with its accents."""
_NARROWEST = 8
_GUTTER, _GOES_ON = Span("  │", "dim"), Span("  ↳", "dim")


class Text(NamedTuple):
    """One line of a question. `mark` is shown before it; in a diff it is the line's number with
    `+`, `-` or a blank. Continuation rows don't repeat the number."""

    text: str
    mark: str = ""
    style: Style = ""


def reveal_hidden(line: str) -> str:
    """Return a line in which no character is invisible or passes for another. Tabs, blanks at the
    end and control characters are shown as signs (`␉`, `␣`, `␛`), unusual characters by their code
    point (`<U+202E>`), and long padding as a count (`<200 blanks>`)."""
    if not line.isascii():
        line = _PICTURES.sub(codepoint, line)
        line = _WORD.sub(_mixed, "".join(_combining(line)))
    line = printable(line, multiline=False, strict=True)
    line = _PADDING.sub(lambda run: f"<{len(run.group())} blanks>", line)
    return _AT_END.sub(lambda run: run.group().replace(" ", "␣"), line)


def texts(text: str) -> list[Text]:
    """Split `text` into lines, only at newlines, so that a carriage return stays visible."""
    return [Text(line) for line in text.split("\n")]


def rows(lines: Iterable[Text], width: int) -> Iterator[Line]:
    """Yield rows of at most `width` columns. Continuation rows are marked with `↳`; a blank at a
    break is shown, so that the break can't be taken for one within a word. Many blank lines in a
    row are replaced by their count."""
    for blank, group in groupby(lines, key=lambda line: not line.text.strip(" \t")):
        together = list(group)
        if blank and len(together) > _MOST_BLANK_LINES:
            counted = f"<{len(together)} blank lines>"
            mark = f" {together[0].mark}" if together[0].mark else ""
            yield [_GUTTER, Span(f"{mark} {counted}", together[0].style)]
        else:
            for line in together:
                yield from _wrapped(line, width)


def wrapped(text: str, width: int) -> list[str]:
    """Split `text`, made visible already, into pieces of at most `width` columns, broken after
    blanks if that wastes little room."""
    width = max(width, _NARROWEST)
    pieces: list[str] = []
    carried, at = "", 0
    while True:
        ahead = carried + text[at : at + _MOST_PER_COLUMN * width]
        end = fitting(ahead, width)
        if end == len(ahead) and at + end - len(carried) >= len(text):
            return [*pieces, ahead]
        blank = ahead.rfind(" ", end // 2, end)
        end = end if blank < 0 else blank + 1
        kept = ahead[:end].rstrip(" ")
        pieces.append(kept + "␣" * (end - len(kept)))
        if end < len(carried):
            carried = carried[end:]
            continue
        at += end - len(carried)
        blanks = _BLANKS.match(text, at)
        carried = "␣" * len(blanks[0]) if blanks else ""
        at += len(carried)


def _wrapped(line: Text, width: int) -> Iterator[Line]:
    before = f" {line.mark} " if line.mark else " "
    first, *others = wrapped(reveal_hidden(line.text), width - 3 - len(before))
    yield [_GUTTER, Span(f"{before}{first}".rstrip(" "), line.style)]
    before = _NUMBER.sub(" ", before)
    for piece in others:
        yield [_GOES_ON, Span(f"{before}{piece}", line.style)]


def _mixed(word: re.Match[str]) -> str:
    """Add the code points of look-alike letters in a word that mixes them with ASCII ones."""
    text = word.group()
    if not any(char.isascii() for char in text):
        return text
    return _LOOK_ALIKE.sub(lambda found: found.group() + codepoint(found), text)


def _combining(text: str) -> Iterator[str]:
    """Keep accents on letters, but spell out any that strike through, pile up or lack a letter."""
    before, accents = "", 0
    for char in text:
        if unicodedata.category(char) not in ("Mn", "Me"):
            before, accents = char, 0
            yield char
            continue
        accents += 1
        honest = before.isalpha() and accents <= _MOST_ACCENTS and not _OVERLAYS.match(char)
        yield char if honest else f"<U+{ord(char):04X}>"
