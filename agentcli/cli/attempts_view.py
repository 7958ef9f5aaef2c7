"""What people see of several attempts: a line for each while they run, and a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentcli.app.attempts import Judgement
from agentcli.messages import Usage
from agentcli.ui.choices import aligned
from agentcli.ui.screen import SPINNER, LiveRegion, Screen
from agentcli.ui.summary import count, duration, money
from agentcli.ui.text import Line, Span, Style, plain, printable

_HEADINGS = ("try", "session", "ended", "check", "changes", "cost", "time", "model")
_FACTS = slice(3, 7)
"""The columns that the line of a finished attempt shows, too."""


@dataclass
class AttemptProgress:
    """The progress of an attempt. `is_over` is set only once everything about it is known. Its
    costs are its own, without those of the conversation before it."""

    number: int
    model: str = ""
    started: float = field(default_factory=time.monotonic)
    doing: str = "begins"
    steps: int = 0
    cost_usd: float | None = 0.0
    session_id: str = ""
    status: str = ""
    reason: str = ""
    exit_code: int = 1
    answer: str = ""
    error: str = ""
    hint: str = ""
    usage: Usage = field(default_factory=Usage)
    files_changed: tuple[str, ...] = ()
    duration_s: float = 0.0
    judged: Judgement = field(default_factory=Judgement)
    has_result: bool = False
    is_over: bool = False
    is_chosen: bool = False

    earlier: tuple[int, Usage, float | None] = (0, Usage(), 0.0)
    """Steps, tokens and cost of this attempt's earlier runs."""

    def begin_again(self) -> None:
        self.earlier = self.steps, self.usage, self.cost_usd
        self.has_result = self.is_over = False
        self.doing = "goes on"

    def take_result(self, line: Mapping[str, Any]) -> None:
        """Take over the line that ends a run, as `ui.jsonl` writes it."""
        steps, usage, cost = self.earlier
        self.has_result = True
        error = line["error"] or {}
        self.session_id, self.status = line["session_id"], line["status"]
        self.reason, self.exit_code = line["reason"], line["exit_code"]
        self.answer, self.steps = line["answer"], steps + line["steps"]
        self.error, self.hint = error.get("message", ""), error.get("hint", "")
        self.usage = usage + Usage(**line["usage"])
        known = cost is not None and line["cost_usd"] is not None
        self.cost_usd = cost + line["cost_usd"] if known else None
        self.files_changed = tuple(line["files_changed"])
        self.doing = "is checked"

    @property
    def is_good(self) -> bool:
        """Whether it ran to its end and passed the check."""
        check = self.judged.check
        return self.exit_code == 0 and check is not None and check.passed

    def as_dict(self) -> dict[str, Any]:
        judged = self.judged
        return {
            "number": self.number,
            "session_id": self.session_id,
            "model": self.model,
            "status": self.status,
            "exit_code": self.exit_code,
            "check": judged.check.as_dict() if judged.check else None,
            "files": judged.files,
            "added": judged.added,
            "removed": judged.removed,
            "cost_usd": self.cost_usd,
            "duration_s": round(self.duration_s, 3),
            "answer": self.answer,
            "error": self.error,
            "chosen": self.is_chosen,
        }


def best_of(attempts: Sequence[AttemptProgress]) -> AttemptProgress | None:
    """Return the good attempt with the smallest diff, of several such the cheapest; None if none is
    good. If a price is unknown, tokens are compared instead."""
    unpriced = any(each.cost_usd is None for each in attempts)

    def rank(each: AttemptProgress) -> tuple[float, ...]:
        tokens = each.usage.prompt_tokens + each.usage.completion_tokens
        return each.judged.lines, tokens if unpriced else each.cost_usd or 0.0, each.number

    return min((each for each in attempts if each.is_good), key=rank, default=None)


class AttemptsView:
    """Shows the attempts on stderr; nothing when `quiet`."""

    def __init__(self, attempts: Sequence[AttemptProgress], *, quiet: bool) -> None:
        self._attempts = attempts
        self._quiet = quiet
        self.screen = Screen(sys.stderr, region=LiveRegion(sys.stderr, most_rows=len(attempts)))
        self._told: set[int] = set()

    def draw(self) -> None:
        """Draw the current state: live rows at a terminal, else a line per try that has ended."""
        if self._quiet:
            return
        if self.screen.live:
            now = time.monotonic()
            self.screen.flush([self.screen.row(_row(each, now)) for each in self._attempts])
            return
        for each in self._attempts:
            if each.is_over and each.number not in self._told:
                self._told.add(each.number)
                self.screen.put("note", [_row(each, time.monotonic())])
        self.screen.flush()

    def table(self) -> None:
        if self._quiet:
            return
        columns = len(_HEADINGS) - (not any(each.model for each in self._attempts))
        rows = [row[:columns] for row in (_HEADINGS, *map(_cells, self._attempts))]
        lines = aligned([[Span(cell) for cell in row] for row in rows])
        for line, each in zip(lines, [None, *self._attempts], strict=True):
            style: Style = "dim" if each is None else "bold" if each.is_chosen else ""
            mark = "→ " if each is not None and each.is_chosen else "  "
            self.screen.put("note", [[Span(mark + plain(line).rstrip(), style)]], whole=False)
        self.screen.flush()


def _row(each: AttemptProgress, now: float) -> Line:
    name = f"try {each.number}" + (f" ({printable(each.model)})" if each.model else "")
    if each.is_over:
        style: Style = "green" if each.is_good else "red"
        check, *others = _cells(each)[_FACTS]
        facts = [_ending(each), *filter(None, (check and f"check: {check}", *others))]
        sign = "✓" if each.is_good else "✗"
        return [Span(f"{sign} ", style), Span(f"{name}  ", ""), Span(" · ".join(facts), "dim")]
    doing = printable(each.doing, multiline=False)
    facts = [count(each.steps, "step"), money(each.cost_usd), doing]
    spinner = SPINNER[int(now * 10) % len(SPINNER)]
    return [Span(f"{spinner} ", "cyan"), Span(f"{name}  "), Span(" · ".join(facts), "dim")]


def _cells(each: AttemptProgress) -> tuple[str, ...]:
    judged, check = each.judged, each.judged.check
    changes = checked = ""
    if judged.tree:
        lines = f" +{judged.added} -{judged.removed}" if judged.lines else ""
        changes = f"{count(judged.files, 'file')}{lines}"
    if check is not None:
        failed = "too long" if check.exit_code is None else f"exit {check.exit_code}"
        checked = "passed" if check.passed else failed
    return (
        str(each.number),
        each.session_id,
        _ending(each),
        checked,
        changes,
        "$?" if each.cost_usd is None else money(each.cost_usd),
        duration(each.duration_s),
        printable(each.model, multiline=False),
    )


def _ending(each: AttemptProgress) -> str:
    """Return how an attempt ended, in a word or two."""
    if each.exit_code == 0:
        return "done"
    why = each.reason or each.status or "failed"
    return printable(why.replace("_", " "), multiline=False)
