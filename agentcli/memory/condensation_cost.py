"""When to condense: weighs the cost of going on against the cost of a new prefix.

Every step reads the whole prefix again, from the provider's cache. A condensation shortens the
prefix, but what is left must be written to the cache anew, and a summariser may have to read what
goes. Each further step costs a little more than the last; a condensation costs the same whenever it
happens. As with the order quantity of goods in stock, the cost per step is lowest with one
condensation every `sqrt(2 x its cost / (price of a cached token x growth per step))` steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of one token: of new prompt, read from the cache, written to the cache, of output. In
    USD, or in any unit if only the ratios matter."""

    prompt: float
    cache_read: float
    cache_write: float
    output: float


USUAL_PRICES = Prices(prompt=1.0, cache_read=0.1, cache_write=1.25, output=5.0)
"""Used if prices are unknown: the usual ratios, in units of a prompt token."""

SUMMARY_TOKENS = 2_000
"""Typical length of a summary: written by one model, then read by the other."""


STEPS_IN_SIGHT = 10
"""How many of the newest steps a condensation leaves. Each further step would be read again with
every request, which costs more than recalling the little that is needed of it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The situation of a session: tokens of the next request, how many of them a condensation would
    leave, the mark above which one is mandatory, growth per step in tokens, and how many steps are
    likely to follow."""

    tokens: int
    target: int
    high_water: int
    growth: float
    steps_left: float
    summarised: bool = True
    """Whether a model reads and summarises what goes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a condensation is `due`, the reason in words, and all numbers behind it."""

    due: bool
    reason: str
    numbers: dict[str, float]


def decide(outlook: Outlook, prices: Prices | None) -> Decision:
    """Decide whether to condense before the next request. Above the high-water mark: always; below
    the target: never; in between: when the best interval is reached and the remaining steps save
    more than the condensation costs. Pure."""
    unit = prices or USUAL_PRICES
    saved_tokens = max(outlook.tokens - outlook.target, 0)
    # What is left is written to the cache anew instead of being read. Summarising what goes is paid
    # only once, whenever it happens: it makes a condensation dearer, but the interval no longer.
    fixed = outlook.target * max(unit.cache_write - unit.cache_read, 0.0)
    fixed += SUMMARY_TOKENS * unit.output if outlook.summarised else 0.0
    cost = fixed + (saved_tokens * unit.prompt if outlook.summarised else 0.0)
    saving = saved_tokens * unit.cache_read * outlook.steps_left
    interval = best_interval(fixed, unit.cache_read, outlook.growth)
    numbers = {
        "tokens": outlook.tokens,
        "target": outlook.target,
        "high_water": outlook.high_water,
        "growth_per_step": round(outlook.growth, 1),
        "steps_left": round(outlook.steps_left, 1),
        "stride_steps": round(interval, 1) if interval < inf else -1.0,
        "cost_of_condensing": cost,
        "saved_by_condensing": saving,
        "prices_known": float(prices is not None),
    }
    if outlook.tokens > outlook.high_water:
        words = f"{outlook.tokens:,} tokens are over the mark of {outlook.high_water:,}"
        return Decision(True, words, numbers)
    reached = saved_tokens >= interval * outlook.growth
    if saved_tokens > 0 and reached and saving > cost:
        words = f"a shorter prompt of some {outlook.target:,} tokens pays from here on"
        return Decision(True, words, numbers)
    return Decision(False, "", numbers)


def target_tokens(staying: int, growth: float, most: int) -> int:
    """Return the size to come down to: what must stay and about the newest steps, at most
    `most`."""
    return min(most, int(staying + STEPS_IN_SIGHT * max(growth, 0.0)))


def best_interval(cost: float, cache_read: float, growth: float) -> float:
    """Return the number of steps between condensations at which a step costs least; inf if
    condensing saves nothing."""
    per_step = cache_read * growth
    return sqrt(2 * cost / per_step) if per_step > 0 else inf


def steps_to_come(steps_so_far: int) -> float:
    """Estimate how many steps will follow: as many as so far, for want of better knowledge, but at
    least a few, as the session is not over."""
    return float(max(steps_so_far, 3))
