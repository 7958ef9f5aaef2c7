"""What policies cost against what they keep in sight: with matplotlib if it is there, else in
characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.condensing.policies import OURS
from benchmarks.condensing.report import Row

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
