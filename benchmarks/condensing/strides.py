"""How good the decision when to condense is: against the best there is, for a future that is known.

Only prompt tokens count here. A step reads its prefix from the cache and writes what has come; a
condensation writes the prefix that is left, and has what goes read and summed up. Under these costs
the best moments are found by trying all of them, from the last step backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from agentcli.memory.condensation_cost import SUMMARY_TOKENS, Outlook, Prices, decide, steps_to_come


@dataclass(frozen=True)
class Course:
    """A session in tokens: what the first request has, what each further step adds; what a
    condensation leaves, and the mark that no request may pass."""

    start: int
    growth: Sequence[int]
    target: int
    mark: int


Due = Callable[[int, int, float], bool]
"""Of the tokens of the next request, the steps so far, and the mean growth since the last
condensation: whether to condense."""


def cost_of_step(tokens: int, new: int, prices: Prices) -> float:
    return (tokens - new) * prices.cache_read + new * prices.cache_write


def cost_of_condensing(tokens: int, target: int, prices: Prices) -> float:
    """A summary of what goes; the prefix that is left is written with the step that follows."""
    return (tokens - target) * prices.prompt + SUMMARY_TOKENS * prices.output


def followed(course: Course, prices: Prices, due: Due) -> tuple[float, list[int]]:
    """What the session costs when it is condensed where `due` says so, and at which steps that
    was. Above the mark it is due in any case."""
    tokens, new, total = course.start, course.start, 0.0
    began, tokens_then, points = 0, course.start, []
    for number, growth in enumerate([*course.growth, 0]):
        mean = (tokens - tokens_then) / max(number - began, 1)
        wanted = tokens > course.mark or due(tokens, number, mean)
        if wanted and tokens > course.target:
            total += cost_of_condensing(tokens, course.target, prices)
            tokens = new = course.target
            began, tokens_then = number, tokens
            points.append(number)
        total += cost_of_step(tokens, new, prices)
        tokens, new = tokens + growth, growth
    return total, points


def ours(course: Course, prices: Prices) -> Due:
    """As a memory decides."""

    def due(tokens: int, steps: int, growth: float) -> bool:
        outlook = Outlook(tokens, course.target, course.mark, growth, steps_to_come(steps))
        return decide(outlook, prices).due

    return due


def never(tokens: int, steps: int, growth: float) -> bool:
    """Only where the mark forces it."""
    return False


def optimum(course: Course, prices: Prices) -> tuple[float, list[int]]:
    """The least that the session can cost, and the steps to condense at for that."""
    steps = len(course.growth) + 1
    best = [inf] * steps + [0.0]
    following = [steps] * (steps + 1)
    for begin in range(steps - 1, 0, -1):
        best[begin], following[begin] = _best_stretch(course, prices, begin, course.target, best)
    least, point = _best_stretch(course, prices, 0, course.start, best)
    points = []
    while point < steps:
        points.append(point)
        point = following[point]
    return least, points


def _best_stretch(
    course: Course, prices: Prices, begin: int, tokens: int, best: Sequence[float]
) -> tuple[float, int]:
    """The least cost from step `begin` on, with a prefix of `tokens` that is all new, and the step
    before which to condense next; the number of steps for never."""
    steps = len(course.growth) + 1
    total = cost_of_step(tokens, tokens, prices)
    least, where = inf, steps
    for step in range(begin + 1, steps):
        tokens += course.growth[step - 1]
        if tokens > course.target:
            there = total + cost_of_condensing(tokens, course.target, prices) + best[step]
            if there < least:
                least, where = there, step
        if tokens > course.mark:
            return least, where
        total += cost_of_step(tokens, course.growth[step - 1], prices)
    return (total, steps) if total < least else (least, where)
