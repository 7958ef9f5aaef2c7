"""Plots tokens and cost by step as SVG, with one path per series however many steps there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from agentcli.events.actions import CondensationAction
from agentcli.events.observations import DelegateObservation
from agentcli.page.history import History
from agentcli.page.markup import attribute, element, line
from agentcli.ui.summary import count, money, quantity

_HEIGHT = 100
"""Units of the drawing. It is one unit per step wide, and stretched to its place."""


@dataclass(frozen=True)
class Series:
    """Values by step: tokens read, those of them from the cache, tokens written, and the cost in
    USD up to its end, including children and summaries. `known` says whether all prices are."""

    read: Sequence[int]
    cached: Sequence[int]
    written: Sequence[int]
    spent: Sequence[float]
    known: bool
    condensed: Sequence[int]
    """The steps, counted from 0, before which the conversation was condensed."""


def series_of(history: History) -> Series:
    """Return the values of all steps of a session."""
    read, cached, written, spent, condensed = [], [], [], [], []
    known, total = True, 0.0
    reply = ""
    for event in history.events:
        if event.reply is not None and event.reply.id != reply:
            reply = event.reply.id
            metrics = event.llm_metrics
            read.append(metrics.prompt_tokens if metrics else 0)
            cached.append(metrics.cache_read_tokens if metrics else 0)
            written.append(metrics.completion_tokens if metrics else 0)
            spent.append(total)
        if isinstance(event, CondensationAction):
            condensed.append(len(read))
        costs = [event.llm_metrics.cost_usd] if event.llm_metrics else []
        if isinstance(event, DelegateObservation):
            costs.append(event.cost_usd)
        known = known and None not in costs
        total += sum(cost for cost in costs if cost and isfinite(cost))
        if spent:
            spent[-1] = total
    return Series(read, cached, written, spent, known, condensed)


def plots(series: Series) -> str:
    """Return the plots as HTML, empty for a session without steps."""
    steps = len(series.read)
    if not steps:
        return ""
    most = max(series.read) or 1
    drawn = [
        _area(series.read, most, "fresh"),
        _area(series.cached, most, "cached"),
        *(_mark(step) for step in series.condensed if 0 < step < steps),
    ]
    legend = '<i class="key fresh"></i>new <i class="key cached"></i>from the cache'
    if series.condensed:
        legend += ' <i class="key mark"></i>condensed'
    told = f"Tokens read by each of {count(steps, 'step')}, {quantity(most)} at most"
    figures = [_figure("tokens", "Tokens read", f"{quantity(most)} at most", legend, drawn, told)]
    if series.known and (total := series.spent[-1]):
        told = f"Cost up to each of {count(steps, 'step')}, {money(total)} in all"
        drawn = [_area(series.spent, total, "spent")]
        figures.append(_figure("cost", "Cost so far", f"{money(total)} in all", "", drawn, told))
    return "".join(figures).replace("STEPS", str(steps))


def _figure(name: str, title: str, most: str, legend: str, drawn: Iterable[str], told: str) -> str:
    svg = (
        f'<svg viewBox="0 0 STEPS {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{attribute(told)}">{"".join(drawn)}</svg>'
    )
    caption = element("figcaption", f"{title}<span>{line(most)}</span>")
    key = element("p", legend, "legend") if legend else ""
    place = f'<div class="canvas">{svg}<i class="cursor js"></i></div>'
    return f'<figure class="plot" data-plot="{name}">{caption}{place}{key}</figure>'


def _area(values: Sequence[float], most: float, classes: str) -> str:
    """Return the area under a line with one stair per step."""
    parts = [f"M0 {_HEIGHT}"]
    for step, value in enumerate(values, 1):
        parts.append(f"V{_HEIGHT - _HEIGHT * min(value / most, 1):.4g}H{step}")
    return f'<path class="{classes}" d="{"".join(parts)}V{_HEIGHT}Z"/>'


def _mark(step: int) -> str:
    return f'<path class="mark" d="M{step} 0V{_HEIGHT}"/>'
