"""When to condense: the cost of going on against the cost of a new prefix.

Every step reads the whole prefix again, from the provider's cache. A condensation makes the prefix
shorter, but what is left of it must be written to the cache anew, and a summariser may have to read
what goes. Going on for one step more costs a little more each time; a condensation costs the same
whenever it is made. As with stock that is reordered in lots, the cost per step is least when a
condensation is made every `sqrt(2 x its cost / (price of a cached token x growth per step))` steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one token: of prompt as it comes, read from the cache, written to it; of output. In USD,
    or in any unit if only their relation counts."""

    prompt: float
    cache_read: float
    cache_write: float
    output: float


USUAL_PRICES = Prices(prompt=1.0, cache_read=0.1, cache_write=1.25, output=5.0)
"""Where no price is known: in prompt tokens, as they usually relate."""

SUMMARY_TOKENS = 2_000
"""About what a summary has: written by one model, then read by the other."""


STEPS_IN_SIGHT = 10
"""Of the newest steps, what a condensation leaves. More of them are read again with every request,
which costs more than recalling the little of them that is needed."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A session as it stands: tokens of the next request, what a condensation would leave of them,
    where it must be made at the latest, growth per step in tokens, and how many steps are likely
    still to come."""

    tokens: int
    target: int
    high_water: int
    growth: float
    steps_left: float
    summarised: bool = True
    """Whether a model reads and sums up what goes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`due` with the reason in words, and all numbers it came from."""

    due: bool
    reason: str
    numbers: dict[str, float]


def decide(outlook: Outlook, prices: Prices | None) -> Decision:
    """Whether to condense before the next request. Above the high-water mark, always; below the
    target, never; between them when the best interval is reached and what the steps to come save is
    more than the condensation costs. Pure."""
    unit = prices or USUAL_PRICES
    saved_tokens = max(outlook.tokens - outlook.target, 0)
    # What is left is written anew in place of being read. What goes is summed up once, whenever
    # that is: it makes a condensation dearer, but the interval no longer.
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
    """What to come down to: what stays in any case and about the newest steps, `most` at most."""
    return min(most, int(staying + STEPS_IN_SIGHT * max(growth, 0.0)))


def best_interval(cost: float, cache_read: float, growth: float) -> float:
    """Steps between condensations at which a step costs least; inf where nothing is to be saved."""
    per_step = cache_read * growth
    return sqrt(2 * cost / per_step) if per_step > 0 else inf


def steps_to_come(steps_so_far: int) -> float:
    """How long a session will likely go on: as long again as it has, for want of better knowledge;
    at least a few steps, as it is not over."""
    return float(max(steps_so_far, 3))
