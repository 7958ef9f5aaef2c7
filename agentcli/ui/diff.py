"""Unified diffs as lines for people: numbered and coloured, before they are allowed and after."""

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
"""The last line of a diff that is longer than what events keep."""

SIGN_STYLES: dict[str, Style] = {"+": "green", "-": "red", " ": "dim"}
GAP = "⋮"


class Row(NamedTuple):
    """One line of a change: removed ones have their old number, all others their new one. Where
    lines that stay are left out, the sign is `⋮`."""

    number: int
    sign: str
    text: str

    def mark(self, width: int) -> str:
        """What stands before its text, the number `width` columns wide."""
        return (
            f"{self.sign:>{width}}" if self.sign == GAP else f"{self.number:>{width}} {self.sign}"
        )

    @property
    def style(self) -> Style:
        return SIGN_STYLES.get(self.sign, "dim")


def number_width(rows: Sequence[Row]) -> int:
    return max((len(str(row.number)) for row in rows), default=1)


def diff_counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    signs = Counter(row.sign for row in diff_rows(diff))
    return signs["+"], signs["-"]


def is_cut(diff: str) -> bool:
    """Whether there was more of it than is kept."""
    return diff.rstrip("\n").endswith(f"\n{_CUT}")


def diff_lines(diff: str) -> list[Line]:
    """Every line of the diff, whole: the terminal wraps long ones."""
    rows = diff_rows(diff)
    width = number_width(rows)
    return [_line(row, width) for row in rows]


def _line(row: Row, width: int) -> Line:
    if row.sign == GAP:
        return [Span(f"{row.mark(width)} {row.text}".rstrip(), "dim")]
    text = printable(row.text.removesuffix("\r"))
    return [Span(f"{row.number:>{width}} ", "dim"), Span(f"{row.sign} {text}", row.style)]


def change_rows(old: str, new: str) -> list[Row]:
    """The rows of a change that is yet to be made, of whole texts."""
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
    """The lines of a unified diff with their numbers."""
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
