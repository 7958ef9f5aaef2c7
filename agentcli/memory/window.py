"""The model's window: what of it the prompt and the reply may take, and when condensing pays.

Every step reads the whole prefix again, from the provider's cache. A condensation shortens the
prefix, but what is left must be written to the cache anew, and a summariser may have to read what
goes. Each further step costs a little more than the last; a condensation costs the same whenever it
happens. As with the order quantity of goods in stock, the cost per step is lowest with one
condensation every `sqrt(2 x its cost / (price of a cached token x growth per step))` steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

FULL = 0.95
"""Share that an estimate may fill; the rest is for what the estimate is off by."""
_REPLY_PARTS = 4
_LEAST_REPLY_PARTS = 16
_MOST_OFF = 4
"""How many times the estimate a window that refused it may be; other numbers count bytes."""
_NAMED_WINDOW = (
    r"(?:>=?|<=)\s*(?:n_ctx:?\s*)?(\d[\d,]*)",
    r"\[\d+, ?(\d+)\]",
    r"(\d[\d,]*) (?:tokens? )?max(?:imum)? context",
    r"(?:context|window|limit)[a-z_ ]{0,30}\W{0,4}(?:of |is )?(\d[\d,]*)",
    r"max(?:imum)?[a-z_ ]{0,40}\W{0,3}(?:of |is )?(\d[\d,]*)",
)
"""How a window is named by refusals, the clearest form first: Anthropic and TGI compare, DashScope
gives a range, Mistral says `32768 maximum context length`, most `context length is`, `context size
(`, `token limit:`, and Gemini and xAI `maximum` of something."""
SUMMARY_TOKENS = 2_000
"""Typical length of a summary: written by one model, then read by the other."""
STEPS_IN_SIGHT = 10
"""How many of the newest steps a condensation leaves. Each further step would be read again with
every request, which costs more than recalling the little that is needed of it."""


def reply_reserve(window_tokens: int, max_output_tokens: int) -> int:
    """Return how many tokens are kept free for a reply: at most a quarter of the window."""
    return min(max_output_tokens, window_tokens // _REPLY_PARTS)


def window_in_words(refusal: str) -> int:
    """Return the window in tokens that the words of a refusal name; 0 if they name none."""
    for form in _NAMED_WINDOW:
        numbers = [int(number.replace(",", "")) for number in re.findall(form, refusal, re.I)]
        if found := [number for number in numbers if number >= 256]:
            return found[0]
    return 0


class Window:
    """How many tokens prompt and reply may have together. `ask` returns what is believed at first
    and is called once that matters; refusals correct it. `is_known`: someone who must know says so,
    so that a prompt beyond it need not be tried."""

    def __init__(
        self, ask: Callable[[], int], max_output_tokens: int = 0, *, is_known: bool = False
    ) -> None:
        self._ask = ask
        self._max_output_tokens = max_output_tokens
        self._is_known = is_known
        self._was_refused = False
        self._tokens = self._most_accepted = 0

    @property
    def tokens(self) -> int:
        if not self._tokens:
            self._tokens = self._ask()
        return self._tokens

    @property
    def prompt_tokens(self) -> int:
        """The most that a prompt may take, with room for a reply beside it."""
        return self.tokens - reply_reserve(self.tokens, self._max_output_tokens)

    def is_full(self, prompt_tokens: int) -> bool:
        """Whether a prompt of this estimate must become shorter."""
        return prompt_tokens > self.prompt_tokens * FULL

    def refuses(self, prompt_tokens: int) -> bool:
        """Whether a prompt of this estimate is certain to be refused, or cut without a word."""
        return self._is_known and prompt_tokens > self.tokens

    def reply_tokens(self, prompt_tokens: int, most: int) -> int:
        """Return the cap for a reply beside such a prompt: `most`, or what room there is; once a
        request was refused, no more than is kept for it anyway."""
        room = int(self.tokens * FULL) - prompt_tokens
        if self._was_refused:
            most = reply_reserve(self.tokens, most)
        return min(most, max(room, self.tokens // _LEAST_REPLY_PARTS, 1))

    def was_refused(
        self, prompt_tokens: int, output_tokens: int, words: str, *, counted: bool
    ) -> int:
        """Take in that a prompt of this estimate, with this cap for its reply, did not fit. Return
        the fewest tokens that the prompt then has, 0 if that is unknown. If the `words` of the
        refusal tell the window, or it is known and the estimate not `counted` (learned from a
        count), the estimate is wrong; otherwise the window is, and of what lies between the prompt
        and both together half is taken off."""
        self._was_refused = True
        named = window_in_words(words)
        if 0 < named <= _MOST_OFF * (prompt_tokens + output_tokens):
            self._tokens, self._is_known = min(self.tokens, named), True
            return max(named - output_tokens, 0)
        if self._is_known and not counted:
            return max(self.tokens - output_tokens, 0)
        halved = prompt_tokens + output_tokens // 2
        self._is_known = False
        self._tokens = max(min(self.tokens, halved), self._most_accepted, 1)
        return 0

    def was_measured(self, tokens: int) -> None:
        """Take in that prompt and reply have exactly so many `tokens` together."""
        self._tokens, self._is_known = min(self.tokens, tokens), True

    def was_accepted(self, tokens: int) -> None:
        """Take in that a request with a prompt and cap of so many `tokens` was answered: a window
        that was only guessed is no smaller."""
        self._most_accepted = max(self._most_accepted, tokens)
        if not self._is_known and self._tokens:
            self._tokens = max(self._tokens, tokens)


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


@dataclass(frozen=True, slots=True)
class CostForecast:
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


def decide(forecast: CostForecast, prices: Prices | None) -> Decision:
    """Decide whether to condense before the next request. Above the high-water mark: always; below
    the target: never; in between: when the best interval is reached and the remaining steps save
    more than the condensation costs. Pure."""
    unit = prices or USUAL_PRICES
    saved_tokens = max(forecast.tokens - forecast.target, 0)
    # What is left is written to the cache anew instead of being read. Summarising what goes is paid
    # only once, whenever it happens: it makes a condensation dearer, but the interval no longer.
    fixed = forecast.target * max(unit.cache_write - unit.cache_read, 0.0)
    fixed += SUMMARY_TOKENS * unit.output if forecast.summarised else 0.0
    cost = fixed + (saved_tokens * unit.prompt if forecast.summarised else 0.0)
    saving = saved_tokens * unit.cache_read * forecast.steps_left
    interval = best_interval(fixed, unit.cache_read, forecast.growth)
    numbers = {
        "tokens": forecast.tokens,
        "target": forecast.target,
        "high_water": forecast.high_water,
        "growth_per_step": round(forecast.growth, 1),
        "steps_left": round(forecast.steps_left, 1),
        "stride_steps": round(interval, 1) if interval < inf else -1.0,
        "cost_of_condensing": cost,
        "saved_by_condensing": saving,
        "prices_known": float(prices is not None),
    }
    if forecast.tokens > forecast.high_water:
        words = f"{forecast.tokens:,} tokens are over the mark of {forecast.high_water:,}"
        return Decision(True, words, numbers)
    reached = saved_tokens >= interval * forecast.growth
    if saved_tokens > 0 and reached and saving > cost:
        words = f"a shorter prompt of some {forecast.target:,} tokens pays from here on"
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
