"""Text that a person decides on: every character of it visible, wrapped and never cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from agentcli.ui.sanitize import codepoint, printable
from agentcli.ui.style import Line, Span, Style, fitting

_PICTURES = re.compile("[\u2400-\u2426]")
"""The signs that stand for control characters here; the letters themselves are spelled out."""

_PADDING = re.compile(r" {24,}")
_AT_END = re.compile(r"(?<! ) +$")
_BLANKS = re.compile(" +")
_NUMBER = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+")
_LOOK_ALIKE = re.compile("[\u0370-\u058f\u13a0-\u13ff\uab70-\uabbf]")
"""Greek, Cyrillic, Armenian, Cherokee: letters that pass for Latin ones."""

_OVERLAYS = re.compile("[\u0334-\u0338\u20d0-\u20ff]")
_MOST_ACCENTS = 2
_MOST_BLANK_LINES = 4
_MOST_PER_COLUMN = 4
"""Characters of visible text: a letter with its accents."""
_NARROWEST = 8
_GUTTER, _GOES_ON = Span("  │", "dim"), Span("  ↳", "dim")


class Text(NamedTuple):
    """One line of what is asked; `mark` stands before it (in a diff `+`, `-` or a blank, after the
    number of the line, which the rows that it goes on in don't repeat)."""

    text: str
    mark: str = ""
    style: Style = ""


def visible(line: str) -> str:
    """One line, with nothing in it that shows nothing or passes for something else. Tabs, blanks
    at its end and control characters get a sign (`␉`, `␣`, `␛`), unusual characters their number
    (`<U+202E>`), and long padding is counted (`<200 blanks>`)."""
    if not line.isascii():
        line = _PICTURES.sub(codepoint, line)
        line = _WORD.sub(_mixed, "".join(_combining(line)))
    line = printable(line, multiline=False, strict=True)
    line = _PADDING.sub(lambda run: f"<{len(run.group())} blanks>", line)
    return _AT_END.sub(lambda run: run.group().replace(" ", "␣"), line)


def texts(text: str, mark: str = "", style: Style = "") -> list[Text]:
    """The lines of `text`. Only newlines end one, so that a carriage return stays visible."""
    return [Text(line, mark, style) for line in text.split("\n")]


def rows(lines: Iterable[Text], width: int) -> Iterator[Line]:
    """Rows of at most `width` columns. A line that goes on in the next row is marked `↳` there; a
    blank at the break is shown, so that it can't be taken for a break within a word. Many blank
    lines in a row are counted."""
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
    """`text`, made visible already, in pieces of at most `width` columns, broken after blanks
    where that wastes little."""
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
    first, *others = wrapped(visible(line.text), width - 3 - len(before))
    yield [_GUTTER, Span(f"{before}{first}".rstrip(" "), line.style)]
    before = _NUMBER.sub(" ", before)
    for piece in others:
        yield [_GOES_ON, Span(f"{before}{piece}", line.style)]


def _mixed(word: re.Match[str]) -> str:
    """A word in which other alphabets stand beside Latin letters: those are given by number."""
    text = word.group()
    if not any(char.isascii() for char in text):
        return text
    return _LOOK_ALIKE.sub(lambda found: found.group() + codepoint(found), text)


def _combining(text: str) -> Iterator[str]:
    """Accents stay on letters; those that strike out, pile up or stand on no letter are spelled."""
    before, accents = "", 0
    for char in text:
        if unicodedata.category(char) not in ("Mn", "Me"):
            before, accents = char, 0
            yield char
            continue
        accents += 1
        honest = before.isalpha() and accents <= _MOST_ACCENTS and not _OVERLAYS.match(char)
        yield char if honest else f"<U+{ord(char):04X}>"
