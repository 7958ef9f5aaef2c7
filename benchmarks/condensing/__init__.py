"""What condensing costs: policies compared on long made-up sessions, at list prices.

Nothing is measured here and no model is asked: sessions come from a seed, prices from a package.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.condensing import report
from benchmarks.condensing.prices import MODELS, listed
from benchmarks.report import Figure

PART = "condensing"


def measure(folder: Path, *, quick: bool = False) -> tuple[list[Figure], list[str]]:
    """USD of a session with our policy, by model, length and window, and what the cheapest policy
    of those that keep as many facts costs. All rows go to condensing.json in `folder`, the picture
    beside it."""
    plan = report.QUICK if quick else report.Plan()
    models = [listed(name) for name in MODELS]
    rows = report.rows(plan, models, lambda line: print(f"  {line}", file=sys.stderr, flush=True))
    report.write(folder / "condensing.json", rows, report.strides(plan, models))
    report.draw(rows, folder / "condensing.svg")
    figures = []
    for steps in plan.lengths:
        for window in plan.windows:
            for model in models:
                mine, least = report.best_of_equals(rows, steps, window, model.name)
                where = f"{model.name}, {steps:,} steps, window {window // 1_000}k"
                figures.append(Figure(PART, where, mine.bill.usd / len(plan.seeds), "USD"))
                if least is not mine:
                    figures.append(
                        Figure(
                            PART,
                            f"{where}: {least.policy}",
                            least.bill.usd / len(plan.seeds),
                            "USD",
                        )
                    )
    return figures, []
