"""Prepares what was in the model's window at each step for the script of the page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, get_args

from agentcli.events import Event
from agentcli.events.observations import SessionStartedObservation
from agentcli.memory.context_use import Kind
from agentcli.memory.past_windows import Base, PastWindow, past_windows
from agentcli.memory.view import is_visible_to_model
from agentcli.page.history import History
from agentcli.page.plots import Series

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
    for window in past_windows(events, _provider(events)):
        if not bases or bases[-1] is not window.base:
            bases.append(window.base)
        steps.append(_step(window, len(bases) - 1))
    told = zip(series.cached, series.written, series.spent, strict=True)
    return {
        "kinds": KINDS,
        "steps": steps,
        "spent": [[cached, written, round(spent, 6)] for cached, written, spent in told],
        "known": series.known,
        "bases": [_base(base, set(quiet)) for base in bases],
        "quiet": list(_runs(quiet, ())),
    }


def _provider(events: Sequence[Event]) -> str:
    started = (e.model for e in events if isinstance(e, SessionStartedObservation))
    return next(started, "").partition("/")[0]


def _step(window: PastWindow, base: int) -> list[Any]:
    shares = [window.shares.get(kind, 0) for kind in KINDS]
    return [window.reply, base, window.messages, window.tokens, int(window.counted), shares]


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
