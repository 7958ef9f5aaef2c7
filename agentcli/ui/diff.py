"""Unified diffs as lines for people: numbered and coloured, before they are allowed and after."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from agentcli.ui.sanitize import printable
from agentcli.ui.style import Line, Span, Style

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_CUT = "[diff cut]"
"""The last line of a diff that is longer than what events keep."""

SIGN_STYLES: dict[str, Style] = {"+": "green", "-": "red", " ": "dim"}


def _shown(text: str) -> str:
    return printable(text.removesuffix("\r"))


def diff_counts(diff: str) -> tuple[int, int]:
    """Lines added and removed."""
    signs = Counter(sign for _, sign, _ in _numbered(diff))
    return signs["+"], signs["-"]


def is_cut(diff: str) -> bool:
    """Whether there was more of it than is kept."""
    return diff.rstrip("\n").endswith(f"\n{_CUT}")


def diff_lines(diff: str, visible: Callable[[str], str] = _shown) -> list[Line]:
    """Every line of the diff, whole: the terminal wraps long ones. Lines removed have their old
    number, all others their new one. `visible` makes the text of a line fit to be shown."""
    rows = list(_numbered(diff))
    width = max((len(str(number)) for number, _, _ in rows), default=1)
    return [_line(row, width, visible) for row in rows]


def _line(row: tuple[int, str, str], width: int, visible: Callable[[str], str]) -> Line:
    number, sign, text = row
    if sign == "⋮":
        return [Span(f"{sign:>{width}} {text}".rstrip(), "dim")]
    return [Span(f"{number:>{width}} ", "dim"), Span(f"{sign} {visible(text)}", SIGN_STYLES[sign])]


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
        elif line == _CUT:
            yield 0, "⋮", "the rest of this change is not kept"
        elif started and sign in SIGN_STYLES:
            yield old if sign == "-" else new, sign, line[1:]
            old += sign != "+"
            new += sign != "-"
