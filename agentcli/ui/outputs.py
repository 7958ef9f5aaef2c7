"""What calls printed and changed, as lines: outputs and diffs, and how much of them is shown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentcli.ui.text import Line, Span, Style, printable, resolve_carriage_returns


@dataclass(frozen=True, slots=True)
class Folding:
    """The most lines shown of each part of a call; None means all of them.

    `hint` says how to see the rest, such as `Ctrl-O`; `{}` in it is replaced by the id of the
    call's event. If an event holds only both ends of an output, `kept_output` returns the whole by
    the name of its file, or None if that file is gone.
    """

    code: int | None = 8
    output: int | None = 3
    failed_output: int | None = 8
    found: int | None = 0
    read: int | None = 0
    edit: int | None = 200
    new_file: int | None = 12
    error: int | None = 6
    hint: str = ""
    kept_output: Callable[[str], str | None] = lambda name: None

    def more(self, hidden: int, event: int, noun: str = "line") -> Line:
        """Return the row shown in place of `hidden` lines of the call with this event id."""
        counted = f"… +{hidden:,} {noun}{'' if hidden == 1 else 's'}"
        hint = self.hint.replace("{}", str(event))
        return [Span(f"{counted}, {hint}" if hint else counted, "dim")]

    def first(self, lines: Sequence[Line], limit: int | None, event: int) -> list[Line]:
        """Return the first lines and how many more there are; a single line is never hidden."""
        hidden = 0 if limit is None else len(lines) - limit
        if hidden <= 1:
            return list(lines)
        return [*lines[:limit], self.more(hidden, event)]


FOLDED = Folding()
DETAILED = Folding(
    code=None, output=200, failed_output=200, found=200, edit=None, new_file=200, error=200
)
UNFOLDED = Folding(None, None, None, None, None, None, None, None)


_GAP = re.compile(
    r"\[… (?:lines (?P<first>\d+)-(?P<last>\d+)|part of line \d+) of [\d,]+ not shown, "
    r"[\d,]+ bytes; (?P<where>.*) …\]"
)
"""The row in place of the part of a long output that its event does not hold."""

_KEPT_AS = re.compile(r"\$AGENT_OUT/([\w.-]+)")
_NOTES = re.compile(r"(?:\n\[[^\n]*\])*\Z")
STOPPED = re.compile(
    r"(?:\A|\n)(?:\[interrupted\]\n)?\[(interrupted by the user|stopped: [^\]\n]+)\]\s*\Z"
)
"""The note at the end of an output that was cut short: who or what stopped the command."""

_FOR_THE_MODEL = re.compile(r"\n?\[(?:[\d,]+ characters above|complete: [\d,]+ characters)\]\Z")
"""The note on a long result, in both forms that sessions have recorded."""


def interruption_text(text: str) -> str:
    """Say for the user that an interrupt cut the output short; empty if none did."""
    found = STOPPED.search(text)
    if found is None:
        return ""
    return "stopped by you" if found[1] == "interrupted by the user" else "stopped"


def output_lines(text: str, limit: int | None, folding: Folding, event: int) -> list[Line]:
    """Return the last lines of an output, after a count of the lines before them. If nothing is to
    be folded, a long output is read from the file that it was saved in, if that still exists."""
    text = resolve_carriage_returns(STOPPED.sub("", _FOR_THE_MODEL.sub("", text)))
    if limit is None:
        text = _whole(text, folding)
    if limit == 0 or not text.strip():
        return []
    rows = text.strip("\n").rstrip().split("\n")
    folded = limit is not None and sum(map(_lines_for, rows)) > limit + 1
    start = max(0, len(rows) - (limit or 0)) if folded else 0
    if folded and _GAP.fullmatch(rows[start]):
        start += 1
    hidden = sum(map(_lines_for, rows[:start]))
    shown: list[Line] = [folding.more(hidden, event)] if hidden else []
    for row in rows[start:]:
        gap = _GAP.fullmatch(row)
        if gap is not None and gap["first"] is not None:
            shown.append(folding.more(_lines_for(row), event))
        else:
            text = "… part of a line is not shown" if gap else printable(row)
            shown.append([Span(text, "dim")])
    return shown


def _lines_for(row: str) -> int:
    gap = _GAP.fullmatch(row)
    if gap is None:
        return 1
    return int(gap["last"]) - int(gap["first"]) + 1 if gap["first"] else 0


def _whole(text: str, folding: Folding) -> str:
    gap = next(filter(None, map(_GAP.fullmatch, text.split("\n"))), None)
    name = _KEPT_AS.search(gap["where"]) if gap else None
    kept = folding.kept_output(name[1]) if name else None
    if kept is None:
        return text
    notes = _NOTES.search(text)
    return resolve_carriage_returns(kept).rstrip("\n") + (notes[0] if notes else "")


def live_lines(text: str, gone: int, limit: int) -> list[Line]:
    """Return the last lines of a growing output, of which `text` lacks the first `gone` lines."""
    if not text.strip():
        return []
    rows = resolve_carriage_returns(text).strip("\n").rstrip().split("\n")
    hidden = gone + max(0, len(rows) - limit)
    shown: list[Line] = [[Span(printable(row), "dim")] for row in rows[-limit:]]
    return [Folding().more(hidden, 0), *shown] if hidden else shown


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_CUT = "[diff cut]"
"""The last line of a diff that was too long to be kept whole in its event."""

SIGN_STYLES: dict[str, Style] = {"+": "green", "-": "red", " ": "dim"}
GAP = "⋮"


class Row(NamedTuple):
    """One line of a change. A removed line has its old number, any other line its new one. The sign
    `⋮` marks omitted unchanged lines."""

    number: int
    sign: str
    text: str

    def mark(self, width: int) -> str:
        """Return the number, `width` columns wide, and the sign, to be shown before the text."""
        number = "" if self.sign == GAP else f"{self.number:>{width}} "
        return f"{number}{self.sign:>{width if self.sign == GAP else 1}}"

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
    signs = [row.sign for row in diff_rows(diff)]
    return signs.count("+"), signs.count("-")


def is_cut(diff: str) -> bool:
    return diff.rstrip("\n").endswith(f"\n{_CUT}")


def diff_lines(diff: str) -> list[Line]:
    """Return every line of the diff in full; the terminal wraps long ones."""
    rows = diff_rows(diff)
    width = number_width(rows)
    lines: list[Line] = []
    for row in rows:
        if row.sign == GAP:
            lines.append([Span(f"{row.mark(width)} {row.text}".rstrip(), "dim")])
        else:
            text = Span(f"{row.sign} {printable(row.text.removesuffix(chr(13)))}", row.style)
            lines.append([Span(f"{row.number:>{width}} ", "dim"), text])
    return lines


def change_rows(old: str, new: str) -> list[Row]:
    """Return the rows of a change that is yet to be made, given the whole texts."""
    before, after = _text_lines(old), _text_lines(new)
    rows = diff_rows("\n".join(difflib.unified_diff(before, after, lineterm="", n=3)))
    if new and not new.endswith("\n") and (old != new):
        rows.append(Row(0, GAP, "no newline at the end"))
    elif not rows and old != new:
        rows.append(Row(0, GAP, "the last line gets a newline"))
    return rows


def _text_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def diff_rows(diff: str) -> list[Row]:
    """Return the lines of a unified diff with their numbers."""
    rows: list[Row] = []
    old = new = 0
    started = False
    for line in diff.split("\n"):
        sign = line[:1]
        if hunk := _HUNK.match(line):
            if started:
                rows.append(Row(0, GAP, ""))
            old, new, started = int(hunk[1]), int(hunk[2]), True
        elif line == _CUT:
            rows.append(Row(0, GAP, "the rest of this change is not kept"))
        elif started and sign in SIGN_STYLES:
            rows.append(Row(old if sign == "-" else new, sign, line[1:]))
            old += sign != "+"
            new += sign != "-"
    return rows
