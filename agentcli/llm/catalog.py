"""Names, prices, context windows and image limits of models: from genai-prices and the user."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentcli.errors import ConfigError
from agentcli.llm.provider import built_in, known_providers
from agentcli.messages import ImageLimits, Usage

if TYPE_CHECKING:
    from agentcli.settings import PriceSettings


DEFAULT_CONTEXT_TOKENS = 128_000
LOCAL_CONTEXT_TOKENS = 32_768


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
        # At most as many tokens are cached as there are prompt tokens.
        read = min(usage.cache_read_tokens, usage.prompt_tokens)
        write = min(usage.cache_write_tokens, usage.prompt_tokens - read)
        usage = replace(usage, cache_read_tokens=read, cache_write_tokens=write)
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
        if window := self._window_at(name):
            return window
        price_list, model = _priced(name)
        if not price_list:
            return None
        from genai_prices.data_snapshot import get_snapshot

        try:
            _, info = get_snapshot().find_provider_model(model, None, price_list, None)
        except LookupError:
            return None
        catalogued: Any = info.context_window
        return int(catalogued) if catalogued else None

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


def _own_cost(price: PriceSettings, usage: Usage) -> float:
    plain = usage.prompt_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    return (
        plain * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.completion_tokens * price.output
    ) / 1_000_000


def image_limits(model: str) -> ImageLimits:
    """Return how large an image may be for a model to see every detail.

    Providers scale larger images down, so that a model would name positions in an image that nobody
    else has. If the image is scaled down here, the model can be told the factor. The providers'
    limits, from July to November 2026:

    | models | longer side | pixels | source |
    |---|---|---|---|
    | Claude | 1,568 | 1.15 million | https://platform.claude.com/docs/en/build-with-claude/vision |
    | GPT | 2,048 | any | https://developers.openai.com/api/docs/guides/images-vision |
    | Gemini | 3,072 | any | https://ai.google.dev/gemini-api/docs/image-understanding |

    No image has more than 2,000 pixels a side, whatever the model: a session may continue with a
    Claude model, which refuses larger ones in a request with more than 20 images. That is also the
    limit for models without a published one, such as those of local servers.
    """
    name = model.lower()
    if name.startswith("anthropic/") or "claude" in name:
        return ImageLimits(side=1_568, pixels=1_150_000)
    return ImageLimits()


def resolve(wanted: str, names: Sequence[str], defaults: Iterable[str]) -> str | None:
    """Return the full name among `names` that `wanted` means, or None. A complete model name wins
    over words within one, then one of the `defaults` over others: the provider's choice among
    similar models. Raises ConfigError when several fit, naming them."""
    whole = wanted.lower()
    if found := [name for name in names if _model(name) == whole]:
        return _only(wanted, found)
    if found := [name for name in names if _model(name).rpartition("/")[2] == whole]:
        return _only(wanted, found)
    words = re.compile(rf"(?<![a-z0-9]){re.escape(whole)}(?![a-z])")
    if chosen := next((name for name in defaults if words.search(_model(name))), None):
        return chosen
    # `name:batch` and the like are variants of the model `name`.
    found = [
        name
        for name in names
        if words.search(_model(name)) and not (":" in name and name.partition(":")[0] in names)
    ]
    return _only(wanted, found) if found else None


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Return models' names, and words from them, that resemble `wanted`, the closest first."""
    models = [_model(name) for name in names]
    known = dict.fromkeys(
        word for model in models for word in (model, *re.findall(r"[a-z]{3,}", model))
    )
    return difflib.get_close_matches(wanted.lower(), known, 3, 0.7)


def _model(name: str) -> str:
    return name.partition("/")[2].lower()


def _only(wanted: str, found: list[str]) -> str:
    if len(found) == 1:
        return found[0]
    # Catalogues list old models first.
    shown = found[:-6:-1]
    more = [f"or one of {len(found) - len(shown)} more"] if len(found) > len(shown) else []
    raise ConfigError(
        f"{wanted!r} matches {len(found)} models",
        hint="\n  ".join(("did you mean one of these?", *shown, *more)),
    )
