"""Unified diffs as lines for people: numbered, coloured, bounded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from agentcli.ui.sanitize import printable
from agentcli.ui.style import Line, Span, Style

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
SIGN_STYLES: dict[str, Style] = {"+": "green", "-": "red", " ": "dim"}


def diff_counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    signs = Counter(sign for _, sign, _ in _numbered(diff))
    return signs["+"], signs["-"]


def diff_lines(diff: str, limit: int) -> list[Line]:
    """At most `limit` lines, then how many more there are. Lines removed have their old number,
    all others their new one."""
    rows = list(_numbered(diff))
    shown = rows[:limit]
    width = max((len(str(number)) for number, _, _ in shown), default=1)
    lines: list[Line] = [_line(row, width) for row in shown]
    if len(rows) > limit:
        lines.append([Span(f"… +{len(rows) - limit} lines", "dim")])
    return lines


def _line(row: tuple[int, str, str], width: int) -> Line:
    number, sign, text = row
    if sign == "⋮":
        return [Span(f"{sign:>{width}}", "dim")]
    return [
        Span(f"{number:>{width}} ", "dim"),
        Span(f"{sign} " + printable(text.rstrip("\r")), SIGN_STYLES[sign]),
    ]


def _numbered(diff: str) -> Iterator[tuple[int, str, str]]:
    old = new = 0
    started = False
    for line in diff.split("\n"):
        sign = line[:1]
        if hunk := _HUNK.match(line):
            if started:
                yield 0, "⋮", ""
            old, new = int(hunk[1]), int(hunk[2])
            started = True
        elif started and sign in SIGN_STYLES:
            yield old if sign == "-" else new, sign, line[1:]
            old += sign != "+"
            new += sign != "-"
