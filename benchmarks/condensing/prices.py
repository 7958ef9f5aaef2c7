"""What requests cost: list prices of models, and the rules of their providers' prompt caches.

Prices are those of the genai-prices package. The rules are what the providers' documents say in
2026: Anthropic caches from 1,024 tokens on, for five minutes since the last use, and looks at most
20 content blocks back from a mark; OpenAI caches by itself from 1,024 tokens on in steps of 128,
for five to ten minutes; Gemini from 2,048 on; DeepSeek in units of 64, for hours. How long Gemini
and Moonshot keep it they do not say: five minutes are assumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agentcli.messages import Usage

Purpose = Literal["step", "recall", "summary"]
_SAMPLE = 1_000
_ASSUMED_S = 300.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it was sent: tokens in all, how many of them the request before had at its
    beginning too (`shared`), how many are system text and tools (`fixed`), content blocks after
    what is shared, seconds since the request before, and tokens of the reply. `cold` requests go
    past the cache, as a summariser's do."""

    prompt: int
    shared: int
    fixed: int
    blocks_after_shared: int
    idle_s: float
    output: int
    purpose: Purpose = "step"

    @property
    def cold(self) -> bool:
        return self.purpose == "summary"


@dataclass(frozen=True, slots=True)
class Cache:
    """The least a provider caches and its unit, in tokens; how long, in seconds; and how many
    content blocks back from the end it looks for a prefix that it knows (None: all the way)."""

    least: int
    unit: int
    lifetime_s: float
    lookback: int | None = None


CACHES = {
    "anthropic": Cache(least=1_024, unit=1, lifetime_s=300.0, lookback=20),
    "openai": Cache(least=1_024, unit=128, lifetime_s=600.0),
    "google": Cache(least=2_048, unit=1, lifetime_s=_ASSUMED_S),
    "deepseek": Cache(least=64, unit=64, lifetime_s=7_200.0),
    "moonshotai": Cache(least=1_024, unit=1, lifetime_s=_ASSUMED_S),
}
MODELS = (
    "anthropic/claude-sonnet-4-6",
    "openai/gpt-5.5",
    "google/gemini-2.5-pro",
    "deepseek/deepseek-v4-pro",
    "moonshotai/kimi-k2.6",
)
"""Their cached tokens cost from 3 % to 17 % of new ones."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Tokens and USD. `sent` counts all tokens of all requests, `cached` those of them that were
    read from the cache; `recalls` and `summaries` are what those requests cost, part of `usd`."""

    requests: int
    sent: int
    cached: int
    output: int
    usd: float
    recalls: float
    summaries: float

    @property
    def cached_share(self) -> float:
        return self.cached / self.sent if self.sent else 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model by its full name, USD per token, and its provider's cache."""

    name: str
    prompt: float
    cache_read: float
    cache_write: float
    output: float
    cache: Cache

    def cached(self, sent: Sent) -> int:
        """Tokens of `sent` that are read from the cache."""
        rules = self.cache
        if sent.cold or sent.idle_s > rules.lifetime_s:
            return 0
        shared = sent.shared
        if rules.lookback is not None and sent.blocks_after_shared > rules.lookback:
            # Only the marks on the system text and the tools are found again.
            shared = sent.fixed if shared >= sent.fixed else 0
        shared -= shared % rules.unit
        return shared if shared >= rules.least else 0

    def cost(self, sent: Sent) -> float:
        """USD of one request."""
        cached = self.cached(sent)
        new = self.prompt if sent.cold else self.cache_write
        return cached * self.cache_read + (sent.prompt - cached) * new + sent.output * self.output

    def bill(self, requests: Iterable[Sent]) -> Bill:
        """What all `requests` cost."""
        requests = list(requests)
        costs: dict[Purpose, float] = {"step": 0.0, "recall": 0.0, "summary": 0.0}
        for sent in requests:
            costs[sent.purpose] += self.cost(sent)
        return Bill(
            requests=len(requests),
            sent=sum(sent.prompt for sent in requests),
            cached=sum(self.cached(sent) for sent in requests),
            output=sum(sent.output for sent in requests),
            usd=sum(costs.values()),
            recalls=costs["recall"],
            summaries=costs["summary"],
        )


@dataclass(frozen=True)
class PriceList:
    """What a memory asks a catalogue for: the same window for every model, and our prices."""

    models: dict[str, Model]
    window: int

    def context_tokens(self, name: str) -> int:
        return self.window

    def cost(self, name: str, usage: Usage) -> float | None:
        model = self.models.get(name)
        if model is None:
            return None
        plain = usage.prompt_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return (
            plain * model.prompt
            + usage.cache_read_tokens * model.cache_read
            + usage.cache_write_tokens * model.cache_write
            + usage.completion_tokens * model.output
        )


def listed(name: str) -> Model:
    """The model of this full name at its list prices, for prompts below any price tier. Raises
    LookupError for one that the package does not know."""
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    provider, _, model = name.partition("/")

    def price(**tokens: int) -> float:
        usage = PricedUsage(**tokens)
        return float(calc_price(usage, model, provider_id=provider).total_price) / _SAMPLE

    prompt = price(input_tokens=_SAMPLE)
    return Model(
        name=name,
        prompt=prompt,
        cache_read=price(input_tokens=_SAMPLE, cache_read_tokens=_SAMPLE),
        cache_write=price(input_tokens=_SAMPLE, cache_write_tokens=_SAMPLE),
        output=price(output_tokens=_SAMPLE),
        cache=CACHES[provider],
    )
