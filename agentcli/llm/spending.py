"""Money: what a call can cost at most, and requests cut so that they stay within what is left.

The bound on the input. No tokenizer in use makes more tokens of a text than it has bytes in UTF-8,
and all that the model reads of ours is in the body, so the body's bytes bound its tokens. What a
provider adds itself (a few tokens of framing to each message, fewer than the JSON around it has
bytes; the instructions for calling tools, some hundreds with Anthropic) is covered by a flat
allowance. Images are the exception: an address is short and the image behind it may be large, so
each counts as the most tokens that any image is charged; data that an image is sent as is no text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.llm.catalog import Catalog
from agentcli.messages import Message, Request, Usage

LEAST_OUTPUT_TOKENS = 256
"""A reply that may be no longer than this is not worth its prompt."""

ADDED_TOKENS = 2_048
"""For what providers put into a prompt themselves."""

_BYTES_OF_TOKEN = 4
_RESULTS_BYTES = 8_000
"""By which the prompt of a call that is kept in reserve may have grown: by the reply to this one,
and by what comes of its calls. More than that can't be foreseen."""

_IMAGE_TOKENS = {"anthropic": 5_000}
_MOST_IMAGE_TOKENS = 50_000
"""Anthropic scales images down to at most 4,784 tokens. OpenAI's dearest (gpt-4o-mini) counts 2,833
and 5,667 for each of eight tiles; Gemini counts 258 for each of as many tiles as there are."""

_CAPS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
_DEARER = frozenset({"n", "service_tier"})
_NOT_CHARGED = frozenset(LLMErrorKind) - {
    LLMErrorKind.TIMEOUT,
    LLMErrorKind.STALLED,
    LLMErrorKind.CONNECTION,
    LLMErrorKind.SERVER_ERROR,
    LLMErrorKind.OVERLOADED,
    LLMErrorKind.BAD_RESPONSE,
    LLMErrorKind.UNKNOWN,
}
_METRICS = (
    "prompt_tokens",
    "completion_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


@dataclass
class CallBudget:
    """What one reply may cost, all attempts at it together; `left_usd` None: no limit."""

    left_usd: float | None
    lost_usd: float = 0.0
    """What attempts that broke off may have cost, already taken from what is left."""

    def within(
        self, request: Request, model: str, body_bytes: int, catalog: Catalog
    ) -> tuple[Request, float]:
        """`request`, its output limited so that it costs at most what is left whatever happens, and
        what it then can cost at most (0 without a limit): each byte of its body a token at the
        dearest price of input, the whole output used.

        Raises LLMError of kind BUDGET when not even 256 tokens of output fit, or not beside the
        call in reserve; ConfigError when the price of `model` is not known.
        """
        left_usd = self.left_usd
        if left_usd is None:
            return request, 0.0
        require_price(catalog, model)
        tokens = input_tokens(request, model, body_bytes)

        def most(output: int) -> float:
            return _most(catalog, model, tokens, output) or 0.0

        def cost(output: int) -> float:
            if not request.reserve_tokens:
                return most(output)
            grown = tokens + _BYTES_OF_TOKEN * output + _RESULTS_BYTES
            return most(output) + (_most(catalog, model, grown, request.reserve_tokens) or 0.0)

        wanted = request.max_output_tokens
        least = min(LEAST_OUTPUT_TOKENS, wanted)
        if cost(wanted) <= left_usd:
            return request, most(wanted)
        if cost(least) > left_usd:
            raise LLMError(
                LLMErrorKind.BUDGET,
                f"the next call to {model} could cost up to {_usd(cost(least))}"
                f"{' with the summary after it' if request.reserve_tokens else ''}, "
                f"and {_usd(max(left_usd, 0.0))} is left",
                hint=f"to go on: agent resume {request.session_id} --max-budget-usd …",
            )
        fitting = _largest(least, wanted, cost, left_usd)
        return replace(request, max_output_tokens=fitting), most(fitting)

    def failed(self, error: LLMError, most_usd: float) -> None:
        """An attempt that could cost `most_usd` failed; what the server refused costs nothing."""
        if error.kind not in _NOT_CHARGED and error.status is None:
            self.broke_off(most_usd)

    def broke_off(self, most_usd: float) -> None:
        """An attempt that could cost `most_usd` was abandoned. Nobody says what is charged for it,
        so it counts in full."""
        if self.left_usd is not None:
            self.left_usd -= most_usd
            self.lost_usd += most_usd


def input_tokens(request: Request, model: str, body_bytes: int) -> int:
    """What bounds the tokens of a request whose body has `body_bytes`; see the module."""
    urls = [url for message in request.messages for url in message.image_urls]
    if not urls:
        return body_bytes + ADDED_TOKENS
    data = sum(len(url) for url in urls if url.startswith("data:"))
    # A wire format that leaves images out has no data in its body to be taken off.
    text = max(body_bytes - data, sum(map(_text_bytes, request.messages)))
    each = _IMAGE_TOKENS.get(model.partition("/")[0], _MOST_IMAGE_TOKENS)
    return text + ADDED_TOKENS + len(urls) * each


def require_price(catalog: Catalog, model: str) -> None:
    """Raises ConfigError when nobody knows what `model` costs."""
    if catalog.cost(model, Usage()) is None:
        raise ConfigError(
            f"the price of {model} is not known, so no budget can be kept",
            hint=f'say it in the settings, in USD per million tokens: [prices."{model}"] '
            "input = …, output = …; or lift the limit",
        )


def require_bounds(model: str, extra_body: Collection[str], drop_params: Collection[str]) -> None:
    """Raises ConfigError when what the settings do to the request bodies for `model` takes away
    what bounds a reply, or what it costs."""
    bad = (_CAPS | _DEARER) & set(extra_body) | _CAPS & set(drop_params)
    if bad:
        provider = model.partition("/")[0]
        raise ConfigError(
            f"no budget can be kept while the settings of provider {provider} change "
            f"{', '.join(sorted(bad))} of its requests",
            hint=f"see extra_body and drop_params of [providers.{provider}], or lift the limit",
        )


def charged(catalog: Catalog, model: str, usage: Usage, most_usd: float) -> float | None:
    """USD of a reply; of one whose server does not count tokens, all that it could have cost, or
    None where nobody asked for a limit (`most_usd` 0) or the price is not known."""
    if usage.prompt_tokens or usage.completion_tokens:
        return catalog.cost(model, usage)
    return most_usd or None


def spent_usd(metrics: Mapping[str, Mapping[str, float | int | None]], catalog: Catalog) -> float:
    """USD of what a session used so far, by model; where no price was known then, at today's.
    Raises ConfigError when it is not known today either."""
    total = 0.0
    for model, used in metrics.items():
        cost = used.get("cost_usd")
        if cost is None:
            require_price(catalog, model)
            cost = catalog.cost(model, Usage(*(int(used.get(name) or 0) for name in _METRICS)))
        total += cost or 0.0
    return total


def _most(catalog: Catalog, model: str, tokens: int, output: int) -> float | None:
    """USD of a call if its input is all read at the dearest of the three prices of input."""
    usages = (
        Usage(tokens, output),
        Usage(tokens, output, cache_write_tokens=tokens),
        Usage(tokens, output, cache_read_tokens=tokens),
    )
    costs = [catalog.cost(model, usage) for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


def _largest(low: int, high: int, cost: Callable[[int], float], left_usd: float) -> int:
    """The largest number of tokens from `low`, which fits, to `high` that costs what is left."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= left_usd else (low, middle - 1)
    return low


def _text_bytes(message: Message) -> int:
    size = len(message.content.encode(errors="replace"))
    for call in message.tool_calls:
        size += len(call.name) + len(call.arguments.encode(errors="replace"))
    if message.provider_data is not None:
        size += len(json.dumps(message.provider_data.items, ensure_ascii=False, default=str))
    return size


def _usd(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"
