"""Ways to keep a session within a window: those of `agent` as they are, and simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from agentcli.events.actions import CondensationAction
from agentcli.memory.condenser import (
    Ask,
    Condenser,
    Options,
    first_forgotten,
    forget,
    oldest_by_count,
    oldest_steps,
)
from agentcli.memory.condensers import default, llm_summary
from agentcli.memory.condensers.observation_masking import mask, maskable
from agentcli.memory.memory import Memory, ModelNames, build_memory
from agentcli.memory.view import Step, View
from agentcli.memory.window import Window
from agentcli.messages import ToolSchema
from agentcli.settings import MemorySettings
from benchmarks.condensing.prices import PriceList

OURS = "ours"
_RESERVE = 16_384
"""Tokens of the window kept for the reply, as by default."""
_EVENT_CHARS = 10_000
"""Of each event, to the summariser of all but ours."""


@dataclass(frozen=True)
class Setting:
    """What a policy works with: the model, its window in tokens, whom to ask for a summary."""

    model: str
    prices: PriceList
    ask: Ask
    tools: tuple[ToolSchema, ...]

    @property
    def context_tokens(self) -> int:
        """Of the window, what a request may have."""
        window = self.prices.window
        return max(window - _RESERVE, window // 2)


@dataclass(frozen=True)
class Policy:
    """`memory` makes the window. What `each_time` gives is asked before every request in its place,
    without the memory's judgement of whether it is worth it. `depends_on_prices`: what it does is
    another thing for another model."""

    name: str
    memory: Callable[[Setting], Memory]
    each_time: Callable[[Setting], Condenser] | None = None
    depends_on_prices: bool = False


def policies() -> list[Policy]:
    """All that are compared, ours last."""
    return [
        Policy("only when full", partial(built, condenser="noop")),
        Policy("slide by one, no trace", _plain, lambda s: _SlideByOne(_mark(s), named=False)),
        Policy("slide by one", _plain, lambda s: _SlideByOne(_mark(s))),
        Policy("newest 60 events", _plain, lambda s: _NewestByOne(60, _mark(s))),
        Policy("mask by one", _plain, lambda s: _MaskByOne(20, _mark(s))),
        *(
            Policy(name, partial(_simpler, condenser=condenser), depends_on_prices=True)
            for name, condenser in (
                ("drop when it pays", "window"),
                ("mask in strides", "observation_masking"),
                ("recent, a quarter", "recent"),
                ("recent, half", "amortized"),
                ("summary each 100 events", "llm_summary"),
            )
        ),
        *(
            _summary_at(mark, low)
            for mark, low in ((0.3, 0.1), (0.5, 0.25), (0.75, 0.5), (0.9, 0.5))
        ),
        Policy("ours, at 75 % only", _ours_at_the_mark),
        Policy(OURS, built, depends_on_prices=True),
    ]


def built(setting: Setting, **settings: object) -> Memory:
    """A memory as a user gets it with these settings of the section `memory`."""
    return build_memory(
        MemorySettings.model_validate(settings),
        setting.tools,
        ModelNames(setting.model, setting.model, _RESERVE, setting.prices.window),
        setting.prices,
        setting.ask,
    )


def _simpler(setting: Setting, condenser: str) -> Memory:
    """Another condenser, with marks of its own: a better default is to help ours alone."""
    return built(
        setting, condenser=condenser, high_water=0.75, low_water=0.5, max_event_chars=_EVENT_CHARS
    )


def _plain(setting: Setting) -> Memory:
    """One that never condenses by itself."""
    settings = MemorySettings(condenser="window", enable_history_truncation=False)
    return Memory(Window(lambda: setting.context_tokens), settings, setting.tools, _Never())


def _options(setting: Setting, max_event_chars: int) -> Options:
    settings = MemorySettings(max_event_chars=max_event_chars)
    return Options(settings, setting.ask, lambda: setting.prices.window)


def _summary_at(mark: float, low: float) -> Policy:
    def make(setting: Setting) -> Memory:
        summarising = llm_summary.rolling(_options(setting, _EVENT_CHARS), max_size=0)
        return _at_mark(setting, mark, low, summarising)

    return Policy(f"summary at {mark:.0%} to {low:.0%}", make)


def _ours_at_the_mark(setting: Setting) -> Memory:
    options = _options(setting, MemorySettings().max_event_chars)
    return _at_mark(setting, 0.75, 0.5, default.CONDENSER(options))


def _at_mark(setting: Setting, mark: float, low: float, condenser: Condenser) -> Memory:
    context = setting.context_tokens
    settings = MemorySettings(condenser="window", high_water=mark, low_water=low)
    condense = _AtMark(condenser, int(context * mark))
    return Memory(Window(lambda: context), settings, setting.tools, condense)


@dataclass(frozen=True)
class _Never:
    def condense(self, view: View) -> CondensationAction | None:
        return None


@dataclass(frozen=True)
class _AtMark:
    """Condenses above a mark and not before, whatever that costs."""

    condenser: Condenser
    mark: int

    def condense(self, view: View) -> CondensationAction | None:
        if view.tokens <= self.mark:
            return None
        return self.condenser.condense(replace(view, forced="over the mark"))


@dataclass(frozen=True)
class _SlideByOne:
    """Over so many tokens, the oldest steps go, as many as have come."""

    mark: int
    named: bool = True

    def condense(self, view: View) -> CondensationAction | None:
        return _gone(view, oldest_steps(view, self.mark), named=self.named)


@dataclass(frozen=True)
class _NewestByOne:
    """The newest events stay, and no more than those, nor more than so many tokens."""

    events: int
    mark: int

    def condense(self, view: View) -> CondensationAction | None:
        by_count = oldest_by_count(view, view.count - self.events, 0)
        return _gone(view, max(by_count, oldest_steps(view, self.mark), key=len), named=True)


@dataclass(frozen=True)
class _MaskByOne:
    """Results are masked as soon as they are older than the newest events; where that is not
    enough, the oldest steps go."""

    attention: int
    mark: int

    def condense(self, view: View) -> CondensationAction | None:
        attended = {event.id for event in view.model_visible_events[-self.attention :]}
        old = [event for event in maskable(view) if event.id not in attended]
        return mask(old, "old") if old else _SlideByOne(self.mark).condense(view)


def _mark(setting: Setting) -> int:
    return int(setting.context_tokens * 0.75)


def _gone(view: View, steps: list[Step], *, named: bool) -> CondensationAction | None:
    """`steps` forgotten; with a line that says which events these were, or without a trace."""
    if not steps:
        return None
    if not named:
        ids = sorted(event_id for step in steps for event_id in step.event_ids)
        return CondensationAction(forgotten_event_ids=tuple(ids), reason="old")
    first, last = first_forgotten(view, steps)
    return forget(view, steps, f"[Events {first} to {last} are left out.]", "old")
