"""Show people the output of commands and tools as lines."""

from __future__ import annotations

import re

from agentcli.ui.folding import Folding
from agentcli.ui.sanitize import printable, resolve_carriage_returns
from agentcli.ui.style import Line, Span

_GAP = re.compile(
    r"\[… (?:lines (?P<first>\d+)-(?P<last>\d+)|part of line \d+) of [\d,]+ not shown, "
    r"[\d,]+ bytes; (?P<where>.*) …\]"
)
"""The row that stands for the part of a long output that its event does not hold."""

_KEPT_AS = re.compile(r"\$AGENT_OUT/([\w.-]+)")
_NOTES = re.compile(r"(?:\n\[[^\n]*\])*\Z")
STOPPED = re.compile(
    r"(?:\A|\n)(?:\[interrupted\]\n)?\[(interrupted by the user|stopped: [^\]\n]+)\]\s*\Z"
)
"""The note at the end of an output that was cut short: who or what stopped the command."""

_FOR_THE_MODEL = re.compile(r"\n?\[[\d,]+ characters above\]\Z")


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
    folded = limit is not None and sum(map(_lines_of, rows)) > limit + 1
    start = max(0, len(rows) - (limit or 0)) if folded else 0
    if folded and _GAP.fullmatch(rows[start]):
        start += 1
    hidden = sum(map(_lines_of, rows[:start]))
    shown = [_line(row, folding, event) for row in rows[start:]]
    return [folding.more(hidden, event), *shown] if hidden else shown


def _line(row: str, folding: Folding, event: int) -> Line:
    gap = _GAP.fullmatch(row)
    if gap is None:
        return [Span(printable(row), "dim")]
    if gap["first"] is None:
        return [Span("… part of a line is not shown", "dim")]
    return folding.more(_lines_of(row), event)


def _lines_of(row: str) -> int:
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
