"""Rows to choose from: which of them match what is typed, and how they look."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from agentcli.ui.text import Line, Span, cells, clip, fitting, plain, printable

ValueT = TypeVar("ValueT")

_LONGEST_GAP = 3
_TITLE_COLUMNS = 24
"""Least columns that facts leave to the title, by which the user recognises a choice."""
_LABEL_COLUMNS = 7


@dataclass(frozen=True, slots=True)
class Choice(Generic[ValueT]):
    """A row to choose: `facts`, in columns of the same width in all rows (see `aligned`), then
    name, title and place. `hidden` text is searched too. The next message starts out as `draft`,
    and must not be empty if the choice `needs_message`."""

    value: ValueT
    title: str
    facts: Line = ()
    name: str = ""
    place: str = ""
    hidden: str = ""
    draft: str = ""
    needs_message: bool = False

    @property
    def searched(self) -> str:
        return f"{self.name}\n{self.title}\n{self.hidden}\n{self.place}".casefold()


@dataclass(frozen=True, slots=True)
class Preview:
    """What is shown about the marked choice: a heading, and who said what."""

    heading: str
    said: Sequence[tuple[str, str]] = ()


class Selection(Generic[ValueT]):
    """The choices that match what is typed, and which of them is marked."""

    def __init__(self, choices: Sequence[Choice[ValueT]]) -> None:
        self._texts = [(choice, choice.searched) for choice in choices]
        self.fitting = list(choices)
        self.at = 0

    @property
    def marked(self) -> Choice[ValueT] | None:
        return self.fitting[self.at] if self.fitting else None

    def search(self, query: str) -> None:
        """Keep the choices that match `query`, literal matches first, otherwise in their order."""
        words = query.casefold().split()
        loose = [re.compile(f".{{0,{_LONGEST_GAP}}}?".join(map(re.escape, w))) for w in words]
        found = [each for each in self._texts if all(p.search(each[1]) for p in loose)]
        found.sort(key=lambda each: not all(word in each[1] for word in words))
        self.fitting = [choice for choice, _ in found]
        self.at = 0

    def move(self, by: int) -> None:
        self.at = max(0, min(self.at + by, len(self.fitting) - 1))

    def lines(self, width: int, rows: int) -> list[Line]:
        """Return at most `rows` choices around the marked one, none wider than `width`."""
        first = max(0, min(self.at - rows // 2, len(self.fitting) - rows))
        lines: list[Line] = []
        for number, choice in enumerate(self.fitting[first : first + rows], first):
            line = choice_row(choice, width - 2)
            if number == self.at:
                lines.append([Span("> ", "bold"), Span(plain(line), "bold")])
            else:
                lines.append([Span("  "), *line])
        return lines

    def position(self) -> str:
        """Return the position of the mark, such as `3 of 40`."""
        return f"{self.at + 1} of {len(self.fitting)}" if self.fitting else "no match"


def choice_row(choice: Choice[ValueT], width: int) -> Line:
    """Return the choice on one line of at most `width` columns. If there is too little room for the
    title, facts are dropped, the last ones first."""
    facts = list(choice.facts)
    while facts and cells(plain(facts)) > width - _TITLE_COLUMNS:
        facts.pop()
    return [*facts, *_title(choice, width - cells(plain(facts)))]


def aligned(rows: Sequence[Sequence[Span]], right: Sequence[int] = ()) -> list[Line]:
    """Return a line for each row, with each cell padded to the width of its column and followed by
    two spaces. Columns in `right` are right-aligned."""
    columns = [max(cells(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    lines: list[Line] = []
    for row_cells in rows:
        line: list[Span] = []
        for number, (cell, width) in enumerate(zip(row_cells, columns, strict=True)):
            gap = " " * (width - cells(cell.text))
            text = f"{gap}{cell.text}  " if number in right else f"{cell.text}{gap}  "
            line.append(Span(text, cell.style))
        lines.append(line)
    return lines


def preview_lines(preview: Preview, width: int, rows: int) -> list[Line]:
    """Return exactly `rows` lines: the heading, and as much of what was said as fits."""
    lines: list[Line] = [clip([Span(printable(preview.heading, multiline=False), "bold")], width)]
    left = rows - 1
    for number, (who, text) in enumerate(preview.said):
        # Each later speaker gets at least a line, so that the last words are always shown.
        room = left - (len(preview.said) - 1 - number)
        if number < len(preview.said) - 1:
            room = min(room, max(1, rows // 3))
        said = _wrapped(printable(text.strip()), width - _LABEL_COLUMNS, max(room, 0))
        labels = [f"{who:<{_LABEL_COLUMNS}}", *[" " * _LABEL_COLUMNS] * len(said)]
        lines += [[Span(label, "dim"), *line] for label, line in zip(labels, said, strict=False)]
        left -= len(said)
    return [*lines, *[[]] * rows][:rows]


def _wrapped(text: str, width: int, rows: int) -> list[Line]:
    """Return the first `rows` lines of `text`, broken between words, with `…` if more follows."""
    lines = list(islice(_broken(text, max(width, 1)), rows + 1))
    if len(lines) > rows > 0:
        last = lines[rows - 1]
        lines[rows - 1] = f"{last[: fitting(last, width - 2)]} …"
    return [[Span(line)] for line in lines[:rows]]


def _broken(text: str, width: int) -> Iterator[str]:
    for paragraph in text.split("\n"):
        rest = paragraph.expandtabs(4).rstrip()
        while rest:
            end = fitting(rest, width) or 1
            if end < len(rest) and (space := rest.rfind(" ", 1, end + 1)) > 0:
                end = space
            yield rest[:end]
            rest = rest[end:].lstrip()


def _title(choice: Choice[ValueT], room: int) -> Line:
    title = printable(choice.title, multiline=False)
    name = printable(choice.name, multiline=False)
    text: Line = [Span(f"{name}: ", "bold"), Span(title)] if name else [Span(title)]
    if not choice.place or room < _LABEL_COLUMNS:
        return clip(text, max(room, 0))
    place, most = printable(choice.place, multiline=False), max(room // 2 - 2, 1)
    if cells(place) > most:
        # The end of a path says more than its beginning.
        while place and cells(place) > most - 1:
            place = place[1:]
        place = f"…{place}"
    text = clip(text, max(room - cells(place) - 2, 1))
    gap = " " * (room - cells(plain(text)) - cells(place))
    return [*text, Span(f"{gap}{place}", "dim")]
