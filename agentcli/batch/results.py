"""The results of a batch: the file of results, and the summary of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from agentcli.batch.task import Result
from agentcli.errors import SessionError, os_error_text
from agentcli.workspace.private import replace_durably, sync_names


class Ledger:
    """The results of one batch, of all its starts, by task. The caller holds the batch's lock."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SessionError that names the line if it is damaged."""
        self._path = path
        self.results: dict[str, Result] = {}
        try:
            data = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise SessionError(f"{path} can't be read: {os_error_text(error)}") from error
        *lines, torn = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                result = Result.model_validate(json.loads(line))
            except ValueError as error:
                told = f"{path}:{number}: this line is not a result"
                raise SessionError(told, hint="remove it") from error
            self.results.setdefault(result.id, result)
        if torn:
            # A process was killed while it wrote this line; its task is finished again.
            os.truncate(path, len(data) - len(torn))

    def add(self, result: Result) -> None:
        """Record a result; it is on disk when this returns. Raises SessionError."""
        if result.id in self.results:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            is_new = not self._path.exists()
            with open(os.open(self._path, flags, 0o600), "ab") as file:
                file.write(_line(result.model_dump(mode="json")))
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_names(self._path.parent)
        except OSError as error:
            told = f"{self._path} can't be written: {os_error_text(error)}"
            raise SessionError(told, hint="fix that, then run the same command again") from error
        self.results[result.id] = result

    def forget(self, task_ids: Iterable[str]) -> None:
        """Remove the results of tasks that are to be done again. Raises SessionError."""
        gone = set(task_ids) & self.results.keys()
        if gone:
            kept = {name: each for name, each in self.results.items() if name not in gone}
            _rewrite(self._path, [each.model_dump(mode="json") for each in kept.values()])
            self.results = kept


def write_predictions(path: Path, results: Iterable[Result]) -> None:
    """Write the patches as SWE-bench takes predictions, one a line. Raises SessionError."""
    names = ("instance_id", "model_name_or_path", "model_patch")
    rows = ((result.id, result.model or "agent", result.patch) for result in results)
    _rewrite(path, [dict(zip(names, row, strict=True)) for row in rows])


def _rewrite(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    try:
        replace_durably(path, b"".join(map(_line, values)))
    except OSError as error:
        raise SessionError(f"{path} can't be written: {os_error_text(error)}") from error


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


OUTCOMES = ("passed", "finished", "check failed", "failed", "limit", "error")
"""Best first."""
_COLORS = {
    "passed": "#2e7d32",
    "finished": "#558b2f",
    "check failed": "#c62828",
    "failed": "#ad1457",
    "limit": "#ef6c00",
    "error": "#6d4c41",
}
_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 760, 64, 150, 30, 56
_DOT = 4
_TICKS = 5


@dataclass(frozen=True)
class Summary:
    """The results of a batch; `left` are the tasks without one."""

    results: Sequence[Result]
    left: Sequence[str] = ()

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many results have each outcome, without zeros, in the order of OUTCOMES."""
        found = Counter(result.outcome for result in self.results)
        return {name: found[name] for name in OUTCOMES if found[name]}

    @property
    def succeeded(self) -> int:
        return sum(result.succeeded for result in self.results)

    @property
    def cost_usd(self) -> float | None:
        """The cost of all; None if the price of a model is not known."""
        costs = [result.cost_usd for result in self.results if result.session_id]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    def as_dict(self) -> dict[str, Any]:
        return {
            "tasks": len(self.results) + len(self.left),
            "succeeded": self.succeeded,
            "outcomes": dict(self.outcomes),
            "left": list(self.left),
            "cost_usd": self.cost_usd,
            "prompt_tokens": sum(result.prompt_tokens for result in self.results),
            "completion_tokens": sum(result.completion_tokens for result in self.results),
            "duration_s": round(sum(result.duration_s for result in self.results), 3),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return a header, a row for each outcome, and one for all."""
        head = ("outcome", "tasks", "cost", "each", "steps", "tokens", "time")
        found = [
            self._row(name, [each for each in self.results if each.outcome == name])
            for name in self.outcomes
        ]
        return [head, *found, self._row("all", self.results)]

    def _row(self, name: str, results: Sequence[Result]) -> tuple[str, ...]:
        count = len(results)
        cost = Summary(results).cost_usd
        seconds = sum(result.duration_s for result in results)
        tokens = sum(each.prompt_tokens + each.completion_tokens for each in results)
        return (
            name,
            f"{count:,}",
            "unknown" if cost is None else f"${cost:.2f}",
            "" if cost is None or not count else f"${cost / count:.4f}",
            f"{sum(result.steps for result in results):,}",
            f"{tokens:,}",
            f"{seconds:,.1f} s",
        )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned text, all columns but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *numbers = (cell for cell in row)
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(summary: Summary) -> str:
    """Format the table and a second one with a row for each task."""
    each = [("task", "outcome", "steps", "cost", "time", "session")]
    for result in summary.results:
        cost = "unknown" if result.cost_usd is None else f"${result.cost_usd:.4f}"
        time = f"{result.duration_s:.1f} s"
        row = (result.id, result.outcome, str(result.steps), cost, time, result.session_id)
        each.append(row)
    each += [(task_id, "no result yet", "", "", "", "") for task_id in summary.left]
    return f"# Outcomes\n\n{_piped(summary.rows())}\n# Tasks\n\n{_piped(each)}"


def _piped(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def plot(summary: Summary) -> str:
    """Return an SVG with a row for each outcome, a dot for each task at its cost (at its tokens if
    a price is not known), and a line at the mean of each row."""
    priced = summary.cost_usd is not None
    amounts = {result.id: _amount(result, priced=priced) for result in summary.results}
    most = max(amounts.values(), default=0.0) or 1.0
    height = _TOP + _ROW * max(1, len(summary.outcomes)) + 56
    unit = "USD" if priced else "tokens"
    done = f"{summary.succeeded} of {len(summary.results) + len(summary.left)} tasks succeeded"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="28" font-size="16">{done}: {unit} of each, by outcome</text>',
        *_axis(most, height, priced=priced),
    ]
    for number, name in enumerate(summary.outcomes):
        of_name = [result for result in summary.results if result.outcome == name]
        parts += _outcome_row(name, of_name, amounts, most, _TOP + _ROW * number)
    return "\n".join([*parts, "</svg>\n"])


def _amount(result: Result, *, priced: bool) -> float:
    if priced:
        return result.cost_usd or 0.0
    return float(result.prompt_tokens + result.completion_tokens)


def _x(amount: float, most: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * amount / most, 1)


def _axis(most: float, height: int, *, priced: bool) -> Iterable[str]:
    bottom = height - 44
    for number in range(_TICKS + 1):
        amount = most * number / _TICKS
        x = _x(amount, most)
        told = f"${amount:.3g}" if priced else f"{amount:,.0f}"
        yield f'<path d="M{x} {_TOP}V{bottom}" stroke="#dddddd"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#555555">{told}</text>'


def _outcome_row(
    name: str, results: Sequence[Result], amounts: Mapping[str, float], most: float, top: int
) -> Iterable[str]:
    middle, color = top + _ROW / 2, _COLORS[name]
    told = f"{name} ({len(results)})"
    yield f'<text x="{_LEFT - 16}" y="{middle + 4}" text-anchor="end" fill="{color}">{told}</text>'
    mean = sum(amounts[result.id] for result in results) / len(results)
    x = _x(mean, most)
    yield f'<path d="M{x} {top + 6}V{top + _ROW - 6}" stroke="{color}" stroke-width="2"/>'
    for number, result in enumerate(results):
        # Spread vertically, so that equal costs can be told apart.
        y = round(top + 12 + (_ROW - 24) * (number * 0.618 % 1), 1)
        title = escape(f"{result.id}: {amounts[result.id]:,.4g}, {result.steps} steps")
        yield (
            f'<circle cx="{_x(amounts[result.id], most)}" cy="{y}" r="{_DOT}" fill="{color}" '
            f'fill-opacity="0.55"><title>{title}</title></circle>'
        )
