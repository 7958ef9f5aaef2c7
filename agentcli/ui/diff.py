"""Show unified diffs to people as numbered, coloured lines, both before and after a change."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentcli.ui.sanitize import printable
from agentcli.ui.style import Line, Span, Style

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_CUT = "[diff cut]"
"""The last line of a diff that was too long to be kept whole in its event."""

SIGN_STYLES: dict[str, Style] = {"+": "green", "-": "red", " ": "dim"}
GAP = "⋮"


class Row(NamedTuple):
    """One line of a change. A removed line has its old number, any other line its new one. The sign
    `⋮` stands for unchanged lines that are left out."""

    number: int
    sign: str
    text: str

    def mark(self, width: int) -> str:
        """Return the number, `width` columns wide, and the sign, to be shown before the text."""
        return (
            f"{self.sign:>{width}}" if self.sign == GAP else f"{self.number:>{width}} {self.sign}"
        )

    @property
    def style(self) -> Style:
        return SIGN_STYLES.get(self.sign, "dim")


def number_width(rows: Sequence[Row]) -> int:
    return max((len(str(row.number)) for row in rows), default=1)


def marked_lines(text: str, sign: str) -> list[Line]:
    """Return every line of a text that is added or removed as a whole."""
    rows = printable(text).removesuffix("\n").split("\n") if text else []
    return [[Span(f"{sign} {row}", SIGN_STYLES[sign])] for row in rows]


def diff_counts(diff: str) -> tuple[int, int]:
    """Return the numbers of lines added and removed."""
    signs = Counter(row.sign for row in diff_rows(diff))
    return signs["+"], signs["-"]


def is_cut(diff: str) -> bool:
    """Return whether the diff was too long to be kept whole."""
    return diff.rstrip("\n").endswith(f"\n{_CUT}")


def diff_lines(diff: str) -> list[Line]:
    """Return every line of the diff in full; the terminal wraps long ones."""
    rows = diff_rows(diff)
    width = number_width(rows)
    return [_line(row, width) for row in rows]


def _line(row: Row, width: int) -> Line:
    if row.sign == GAP:
        return [Span(f"{row.mark(width)} {row.text}".rstrip(), "dim")]
    text = printable(row.text.removesuffix("\r"))
    return [Span(f"{row.number:>{width}} ", "dim"), Span(f"{row.sign} {text}", row.style)]


def change_rows(old: str, new: str) -> list[Row]:
    """Return the rows of a change that is yet to be made, given the whole texts."""
    before, after = _lines_of(old), _lines_of(new)
    rows = diff_rows("\n".join(difflib.unified_diff(before, after, lineterm="", n=3)))
    if new and not new.endswith("\n") and (old != new):
        rows.append(Row(0, GAP, "no newline at the end"))
    elif not rows and old != new:
        rows.append(Row(0, GAP, "the last line gets a newline"))
    return rows


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def diff_rows(diff: str) -> list[Row]:
    """Return the lines of a unified diff with their numbers."""
    return list(_numbered(diff))


def _numbered(diff: str) -> Iterator[Row]:
    old = new = 0
    started = False
    for line in diff.split("\n"):
        sign = line[:1]
        if hunk := _HUNK.match(line):
            if started:
                yield Row(0, GAP, "")
            old, new = int(hunk[1]), int(hunk[2])
            started = True
        elif line == _CUT:
            yield Row(0, GAP, "the rest of this change is not kept")
        elif started and sign in SIGN_STYLES:
            yield Row(old if sign == "-" else new, sign, line[1:])
            old += sign != "+"
            new += sign != "-"
