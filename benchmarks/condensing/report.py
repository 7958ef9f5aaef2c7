"""All policies on all sessions: rows, tables, verdicts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentcli.memory.window import Prices
from benchmarks.condensing.generator import Shape, Step, session
from benchmarks.condensing.policies import OURS, Policy, policies
from benchmarks.condensing.prices import Bill, Model
from benchmarks.condensing.simulate import (
    Course,
    Facts,
    Outcome,
    followed,
    never,
    optimum,
    ours,
    replay,
)

EQUAL_SHARE = 0.01
"""Policies that keep this much less of the facts than ours still count as equals."""
_SYSTEM_TOKENS = 2_000


@dataclass(frozen=True)
class Plan:
    """What is simulated: steps of the sessions, tokens of the windows, seeds (one session each)."""

    lengths: tuple[int, ...] = (100, 300, 1_000)
    windows: tuple[int, ...] = (32_000, 128_000, 200_000)
    seeds: tuple[int, ...] = (1, 2)
    need_age: float = 4.0


QUICK = Plan(lengths=(120,), windows=(64_000,), seeds=(1,))


@dataclass(frozen=True)
class Row:
    """One policy with one model, on `sessions` of one length in one window, summed up. USD and
    tokens; `facts` are counts of what was needed."""

    steps: int
    window: int
    sessions: int
    policy: str
    model: str
    facts: Facts
    condensations: int
    bill: Bill


@dataclass(frozen=True)
class Strides:
    """The decision against the best one with the same target, in USD of prompt tokens."""

    steps: int
    window: int
    model: str
    target: int
    ours: float
    at_the_mark: float
    best: float
    points_ours: int
    points_best: int

    @property
    def over_best(self) -> float:
        return self.ours / self.best - 1


def rows(
    plan: Plan, models: Sequence[Model], told: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """Every policy with every model. `told` is given a line before each window."""
    # A summary that would save nothing is refused, as it should be: no news in a small window.
    asking = logging.getLogger("agentcli.memory.summary")
    level = asking.level
    asking.setLevel(logging.ERROR)
    try:
        return _all_rows(plan, models, told)
    finally:
        asking.setLevel(level)


def _all_rows(plan: Plan, models: Sequence[Model], told: Callable[[str], None]) -> list[Row]:
    found: list[Row] = []
    for steps in plan.lengths:
        sessions = [session(Shape(steps, plan.need_age), seed) for seed in plan.seeds]
        for window in plan.windows:
            told(f"{steps:,} steps, window of {window:,}")
            for policy in policies():
                found += _rows_of(policy, sessions, models, steps, window)
    return found


def _rows_of(
    policy: Policy, sessions: Sequence[list[Step]], models: Sequence[Model], steps: int, window: int
) -> list[Row]:
    found = []
    outcomes: list[Outcome] = []
    for model in models:
        if policy.depends_on_prices or not outcomes:
            outcomes = [replay(each, policy, model, window) for each in sessions]
        found.append(
            Row(
                steps,
                window,
                len(sessions),
                policy.name,
                model.name,
                sum((outcome.facts for outcome in outcomes), Facts()),
                sum(len(outcome.condensations) for outcome in outcomes),
                model.bill(sent for outcome in outcomes for sent in outcome.sent),
            )
        )
    return found


def strides(plan: Plan, models: Sequence[Model], share: float = 0.5) -> list[Strides]:
    """The decision by itself, on the growth of each first session, with a target of `share` of the
    window."""
    found = []
    for steps in plan.lengths:
        growth = [_growth(step) for step in session(Shape(steps), plan.seeds[0])]
        for window in plan.windows:
            course = Course(
                start=_SYSTEM_TOKENS + growth[0],
                growth=growth[1:],
                target=int(window * share),
                mark=int(window * 0.75),
            )
            found += [_compared(course, model, steps, window) for model in models]
    return found


def _compared(course: Course, model: Model, steps: int, window: int) -> Strides:
    prices = Prices(model.prompt, model.cache_read, model.cache_write, model.output)
    mine, points = followed(course, prices, ours(course, prices))
    late, _ = followed(course, prices, never)
    best, best_points = optimum(course, prices)
    return Strides(
        steps, window, model.name, course.target, mine, late, best, len(points), len(best_points)
    )


def _growth(step: Step) -> int:
    calls = sum(len(call.arguments) + len(call.result.content) for call in step.calls)
    return (len(step.said) + len(step.text) + calls) // 4


def table(found: Sequence[Row], steps: int, window: int) -> str:
    """The policies in one window in Markdown, with what they cost per model."""
    here = [row for row in found if (row.steps, row.window) == (steps, window)]
    models = list(dict.fromkeys(row.model for row in here))
    names = " | ".join(f"${name.partition('/')[0]}" for name in models)
    lines = [
        f"{steps:,} steps, a window of {window // 1_000} thousand tokens; sums of "
        f"{here[0].sessions} sessions:",
        "",
        f"| policy | visible | named | searched | lost | tokens sent | cached | {names} |",
        "|---|" + "--:|" * (6 + len(models)),
    ]
    for policy in dict.fromkeys(row.policy for row in here):
        of = [row for row in here if row.policy == policy]
        first = of[0]
        facts, bill = first.facts, first.bill
        counts = (facts.visible, facts.named, facts.searched, facts.lost)
        shares = " | ".join(f"{count / max(facts.needed, 1):.1%}" for count in counts)
        costs = " | ".join(_dollars(row.bill.usd) for row in of)
        sent = f"{bill.sent / 1e6:,.1f} M | {bill.cached_share:.0%}"
        lines.append(f"| {policy} | {shares} | {sent} | {costs} |")
    return "\n".join(lines)


def verdicts(found: Sequence[Row]) -> list[str]:
    """For each model and window: who costs the least among those that keep as many facts visible
    or named as ours, and who among all."""
    lines = []
    for steps, window, model in dict.fromkeys((r.steps, r.window, r.model) for r in found):
        here = [r for r in found if (r.steps, r.window, r.model) == (steps, window, model)]
        mine = next(row for row in here if row.policy == OURS)
        others = [row for row in here if row is not mine]
        equals = [row for row in others if row.facts.known >= mine.facts.known - EQUAL_SHARE]
        where = f"{model}, {steps:,} steps, window {window:,}"
        lines.append(
            f"{where}: ours {_dollars(mine.bill.usd)}; at an equal share {_least(mine, equals)}; "
            f"of all {_least(mine, others)}"
        )
    return lines


def _least(mine: Row, others: Sequence[Row]) -> str:
    if not others:
        return "nobody else"
    least = min(others, key=lambda row: row.bill.usd)
    relation = mine.bill.usd / least.bill.usd - 1
    return f"{least.policy} {_dollars(least.bill.usd)} (ours {relation:+.0%})"


def best_of_equals(found: Sequence[Row], steps: int, window: int, model: str) -> tuple[Row, Row]:
    """Ours, and the cheapest of those that keep as much, ours included."""
    here = [r for r in found if (r.steps, r.window, r.model) == (steps, window, model)]
    mine = next(row for row in here if row.policy == OURS)
    equals = [row for row in here if row.facts.known >= mine.facts.known - EQUAL_SHARE]
    return mine, min(equals, key=lambda row: row.bill.usd)


def strides_table(found: Iterable[Strides]) -> str:
    """The decision against the optimum, in Markdown."""
    lines = [
        "| model | steps | window | target | ours | only at the mark | best | ours over best |",
        "|---|" + "--:|" * 7,
    ]
    lines += [
        f"| {one.model} | {one.steps:,} | {one.window:,} | {one.target:,} | {_dollars(one.ours)} "
        f"({one.points_ours}) | {_dollars(one.at_the_mark)} | {_dollars(one.best)} "
        f"({one.points_best}) | {one.over_best:.1%} |"
        for one in found
    ]
    return "\n".join(lines)


def write(path: Path, found: Sequence[Row], decided: Sequence[Strides]) -> None:
    """Everything as JSON, a row a line."""
    lists: dict[str, list[Any]] = {
        "rows": [asdict(row) | {"cached_share": row.bill.cached_share} for row in found],
        "strides": [asdict(one) for one in decided],
        "verdicts": verdicts(found),
    }
    parts = [f'"{name}": [\n{_lines(items)}\n]' for name, items in lists.items()]
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def _lines(items: Sequence[Any]) -> str:
    return ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 1 else f"${value:.3f}"


_BAR_CHARS = 40


def draw(found: Sequence[Row], path: Path) -> Path:
    """A picture of the longest sessions at `path` with .svg, one part per model and window; the
    same in characters with .txt where matplotlib is not installed. Returns the file written."""
    longest = max(row.steps for row in found)
    shown = [row for row in found if row.steps == longest]
    try:
        import matplotlib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        path = path.with_suffix(".txt")
        path.write_text(characters(shown), encoding="utf-8")
        return path
    matplotlib.use("svg")
    path = path.with_suffix(".svg")
    _scatter(shown, path)
    return path


def characters(found: Sequence[Row]) -> str:
    """Bars of dollars, the cheapest first, each with the share of facts in sight and known."""
    parts = []
    for model, steps, window in dict.fromkeys((r.model, r.steps, r.window) for r in found):
        here = [r for r in found if (r.model, r.steps, r.window) == (model, steps, window)]
        here.sort(key=lambda row: row.bill.usd)
        most = here[-1].bill.usd
        lines = [f"{model}, {steps:,} steps, window {window:,}"]
        for row in here:
            bar = "█" * max(1, round(_BAR_CHARS * row.bill.usd / most))
            mark = "→" if row.policy == OURS else " "
            lines.append(
                f"{mark} {row.policy:<24} {bar:<{_BAR_CHARS}} ${row.bill.usd:8.2f}"
                f"  in sight {row.facts.seen:4.0%}, or named {row.facts.known:4.0%}"
            )
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _scatter(found: Sequence[Row], path: Path) -> None:
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    models = list(dict.fromkeys(row.model for row in found))
    windows = list(dict.fromkeys(row.window for row in found))
    figure, axes = pyplot.subplots(
        len(models), len(windows), figsize=(5 * len(windows), 4 * len(models)), squeeze=False
    )
    for line, model in zip(axes, models, strict=True):
        for axis, window in zip(line, windows, strict=True):
            here = [row for row in found if (row.model, row.window) == (model, window)]
            for row in here:
                color = "tab:red" if row.policy == OURS else "tab:blue"
                axis.scatter(row.bill.usd, row.facts.known, color=color, s=18)
                axis.annotate(row.policy, (row.bill.usd, row.facts.known), fontsize=6)
            axis.set_title(f"{model}, window {window:,}", fontsize=8)
            axis.set_xlabel("USD a session")
            axis.set_ylabel("facts visible or named")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
