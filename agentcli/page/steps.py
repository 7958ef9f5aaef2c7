"""What the page shows by step: plots of tokens and cost, and the data of the model's window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any, get_args

from agentcli.events.actions import CondensationAction
from agentcli.events.observations import DelegateObservation, SessionStartedObservation
from agentcli.memory.context_use import Base, Kind, past_windows
from agentcli.memory.view import is_visible_to_model
from agentcli.page.markup import attribute, element, line
from agentcli.page.timeline import History
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
        *(
            f'<path class="mark" d="M{step} 0V{_HEIGHT}"/>'
            for step in series.condensed
            if 0 < step < steps
        ),
    ]
    legend = '<i class="key fresh"></i>new <i class="key cached"></i>from the cache'
    if series.condensed:
        legend += ' <i class="key mark"></i>condensed'
    label = f"Tokens read by each of {count(steps, 'step')}, {quantity(most)} at most"
    figures = [_figure("tokens", "Tokens read", f"{quantity(most)} at most", legend, drawn, label)]
    if series.known and (total := series.spent[-1]):
        label = f"Cost up to each of {count(steps, 'step')}, {money(total)} in all"
        drawn = [_area(series.spent, total, "spent")]
        figures.append(_figure("cost", "Cost so far", f"{money(total)} in all", "", drawn, label))
    return "".join(figures).replace("STEPS", str(steps))


def _figure(name: str, title: str, most: str, legend: str, drawn: Iterable[str], label: str) -> str:
    svg = (
        f'<svg viewBox="0 0 STEPS {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{attribute(label)}">{"".join(drawn)}</svg>'
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


KINDS: tuple[Kind, ...] = get_args(Kind)


def window_data(history: History, series: Series) -> dict[str, Any]:
    """Return the data of the script:

    `steps` has for each step the first event of its reply, the index of its base, messages, tokens,
    whether these were counted or estimated, and tokens by kind; `bases` has the events that a
    request began with, as runs of ids; `quiet` has runs of events that no request carries. Other
    runs continue across quiet events.
    """
    events = history.events
    if any(event.id != index for index, event in enumerate(events)):
        return {"steps": [], "bases": [], "quiet": [], "kinds": KINDS}
    quiet = [event.id for event in events if not is_visible_to_model(event)]
    bases: list[Base] = []
    steps = []
    started = (e.model for e in events if isinstance(e, SessionStartedObservation))
    for window in past_windows(events, next(started, "").partition("/")[0]):
        if not bases or bases[-1] is not window.base:
            bases.append(window.base)
        steps.append(
            [
                *(window.reply, len(bases) - 1, window.messages, window.tokens),
                int(window.counted),
                [window.shares.get(kind, 0) for kind in KINDS],
            ]
        )
    spent = zip(series.cached, series.written, series.spent, strict=True)
    return {
        "kinds": KINDS,
        "steps": steps,
        "spent": [[cached, written, round(usd, 6)] for cached, written, usd in spent],
        "known": series.known,
        "bases": [_base(base, set(quiet)) for base in bases],
        "quiet": list(_runs(quiet, ())),
    }


def _base(base: Base, quiet: Collection[int]) -> dict[str, Any]:
    return {
        "next": base.next,
        "shown": list(_runs(base.shown, quiet)),
        "masked": list(_runs(base.masked, ())),
        "gone": list(_gone(base.gone, quiet)),
    }


def _gone(gone: Mapping[int, int], quiet: Collection[int]) -> Iterator[list[int]]:
    """Yield runs of removed events, each with the id of the event that removed it."""
    for taker, ids in groupby(sorted(gone), key=gone.__getitem__):
        yield from ([*run, taker] for run in _runs([i for i in ids if i not in quiet], quiet))


def _runs(ids: Iterable[int], quiet: Collection[int]) -> Iterator[list[int]]:
    """Yield the first and last id of each run."""
    run: list[int] = []
    for event_id in ids:
        if run and all(between in quiet for between in range(run[1] + 1, event_id)):
            run[1] = event_id
            continue
        if run:
            yield run
        run = [event_id, event_id]
    if run:
        yield run
