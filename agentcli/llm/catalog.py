"""Prices and context windows of models, from genai-prices and the user's own overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentcli.llm.provider import built_in, known_providers
from agentcli.messages import Usage

if TYPE_CHECKING:
    from agentcli.settings import PriceSettings

DEFAULT_CONTEXT_TOKENS = 128_000
LOCAL_CONTEXT_TOKENS = 32_768
_PER = 1_000_000


class Catalog:
    """Looks up `provider/model` names. The catalogue is loaded at the first question."""

    def __init__(
        self, prices: Mapping[str, PriceSettings], window_at: Callable[[str], int] = lambda name: 0
    ) -> None:
        """`window_at` returns the window that a model's server says it has; 0 if it does not."""
        self._own_prices = prices
        self._window_at = window_at

    def cost(self, name: str, usage: Usage) -> float | None:
        """Return the USD cost of `usage`, or None, never 0, when the price is unknown."""
        usage = _consistent(usage)
        if own := self._own_prices.get(name):
            return _own_cost(own, usage)
        price_list, model = _priced(name)
        if not price_list:
            return None
        from genai_prices import Usage as PricedUsage
        from genai_prices import calc_price

        priced = PricedUsage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        try:
            price = calc_price(priced, model_ref=model, provider_id=price_list)
        except (LookupError, ValueError):
            return None
        return float(price.total_price)

    def context_tokens(self, name: str) -> int:
        """Return the model's context window in tokens; a cautious guess if it is not known. May
        wait for the server."""
        if window := self.known_context_tokens(name):
            return window
        known = known_providers().get(name.partition("/")[0])
        is_local = known is not None and known.key_env is None and not known.signs_in
        return LOCAL_CONTEXT_TOKENS if is_local else DEFAULT_CONTEXT_TOKENS

    def known_context_tokens(self, name: str) -> int | None:
        """Return the model's context window in tokens, if its server or the catalogue has it. May
        wait for the server."""
        if told := self._window_at(name):
            return told
        price_list, model = _priced(name)
        if not price_list:
            return None
        from genai_prices.data_snapshot import get_snapshot

        try:
            _, info = get_snapshot().find_provider_model(model, None, price_list, None)
        except LookupError:
            return None
        window: Any = info.context_window
        return int(window) if window else None

    def per_million(self, name: str) -> tuple[float, float] | None:
        """Return USD per million input and output tokens, for prompts of moderate length."""
        prompt = self.cost(name, Usage(prompt_tokens=1_000))
        output = self.cost(name, Usage(completion_tokens=1_000))
        return None if prompt is None or output is None else (prompt * 1_000, output * 1_000)


def catalogued_models(provider: str) -> list[str]:
    """Return the ids of a built-in provider's models in the catalogue, except retired ones."""
    from genai_prices.data_snapshot import get_snapshot

    known = known_providers()[provider]
    listed = next((each for each in get_snapshot().providers if each.id == known.price_list), None)
    return [
        model.id
        for model in (listed.models if listed else ())
        if model.id.startswith(known.own_models) and not model.deprecated
    ]


def _priced(name: str) -> tuple[str, str]:
    """Return the id of the price list with the model (empty if none has it), and its name there."""
    provider, _, model = name.partition("/")
    return built_in(provider).price_list, model


def _consistent(usage: Usage) -> Usage:
    """Return `usage` with at most as many cached tokens as there are prompt tokens."""
    read = min(usage.cache_read_tokens, usage.prompt_tokens)
    write = min(usage.cache_write_tokens, usage.prompt_tokens - read)
    return replace(usage, cache_read_tokens=read, cache_write_tokens=write)


def _own_cost(price: PriceSettings, usage: Usage) -> float:
    plain = usage.prompt_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    return (
        plain * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.completion_tokens * price.output
    ) / _PER
