"""Money: the most that a call can cost, and shrinking requests to stay within the budget.

How the input is bounded: no tokenizer in use makes more tokens of a text than it has bytes in
UTF-8, and everything we send for the model to read is in the body, so the size of the body bounds
its tokens. A flat allowance covers what a provider adds itself: framing of a few tokens per
message, fewer than the JSON around it has bytes, and instructions for calling tools, some hundreds
of tokens with Anthropic. Images are the exception: a short address may lead to a large image, so
each counts as the most tokens that any image costs, and image data in the body does not count as
text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.llm.catalog import Catalog
from agentcli.messages import Message, Request, Usage

LEAST_OUTPUT_TOKENS = 256
"""A reply limited to fewer tokens than this is not worth its prompt."""

ADDED_TOKENS = 2_048
"""Allowance for what providers add to a prompt themselves."""

_RESULTS_BYTES = 8_000
"""Bytes by which the prompt of the call held in reserve may have grown through the results of this
reply's tool calls; the reply itself is counted apart. More can't be foreseen."""

_IMAGE_TOKENS = {"anthropic": 5_000}
_MOST_IMAGE_TOKENS = 50_000
"""Anthropic scales images down to at most 4,784 tokens. OpenAI's most expensive case (gpt-4o-mini)
is 2,833 tokens plus 5,667 for each of eight tiles; Gemini counts 258 per tile, without a limit."""

_NOT_CHARGED = frozenset(LLMErrorKind) - {
    LLMErrorKind.TIMEOUT,
    LLMErrorKind.STALLED,
    LLMErrorKind.CONNECTION,
    LLMErrorKind.SERVER_ERROR,
    LLMErrorKind.OVERLOADED,
    LLMErrorKind.BAD_RESPONSE,
    LLMErrorKind.UNKNOWN,
}


@dataclass
class CallBudget:
    """What one reply may cost, over all attempts; `left_usd` None: no limit."""

    left_usd: float | None
    lost_usd: float = 0.0
    """What abandoned attempts may have cost, already subtracted from what is left."""

    def within(
        self, request: Request, model: str, body_bytes: int, catalog: Catalog
    ) -> tuple[Request, float]:
        """Return `request` with its output limited so that it can't cost more than what is left,
        and the most it can then cost (0 without a limit): each byte of the body counted as a token
        at the highest input price, and the whole output used.

        Raises LLMError of kind BUDGET when not even 256 output tokens fit, alone or beside the call
        held in reserve; ConfigError when the price of `model` is unknown.
        """
        left_usd = self.left_usd
        if left_usd is None:
            return request, 0.0
        require_price(catalog, model)
        tokens = input_tokens(request, model, body_bytes)

        def most(output: int) -> float:
            return _most(catalog, model, tokens, output)

        def cost(output: int) -> float:
            if not request.reserve_tokens:
                return most(output)
            grown = tokens + 4 * output + _RESULTS_BYTES
            return most(output) + _most(catalog, model, grown, request.reserve_tokens)

        wanted = request.max_output_tokens
        least = min(LEAST_OUTPUT_TOKENS, wanted)
        if cost(wanted) <= left_usd:
            return request, most(wanted)
        if cost(least) > left_usd:
            raise LLMError(
                LLMErrorKind.BUDGET,
                f"the next call to {model} could cost up to {_usd(cost(least))}"
                f"{' with the summary after it' if request.reserve_tokens else ''}, "
                f"but only {_usd(max(left_usd, 0.0))} is left",
                hint=f"to go on: agent resume {request.session_id} --max-budget-usd …",
            )
        # The most tokens that what is left pays for are from `least`, which fits, to `wanted`.
        while least < wanted:
            middle = (least + wanted + 1) // 2
            if cost(middle) <= left_usd:
                least = middle
            else:
                wanted = middle - 1
        return replace(request, max_output_tokens=least), most(least)

    def charge_failed(self, error: LLMError, most_usd: float) -> None:
        """Account for a failed attempt that could cost `most_usd`; refused requests cost
        nothing."""
        if error.kind not in _NOT_CHARGED and error.status is None:
            self.charge_abandoned(most_usd)

    def charge_abandoned(self, most_usd: float) -> None:
        """Account for an abandoned attempt that could cost `most_usd`. It counts in full, because
        nobody says what is charged for it."""
        if self.left_usd is not None:
            self.left_usd -= most_usd
            self.lost_usd += most_usd


def input_tokens(request: Request, model: str, body_bytes: int) -> int:
    """Return an upper bound on the tokens of a request with `body_bytes`; see the module."""
    urls = [url for message in request.messages for url in message.image_urls]
    if not urls:
        return body_bytes + ADDED_TOKENS
    data = sum(len(url) for url in urls if url.startswith("data:"))
    # If the wire format left the images out, the body has no image data to subtract.
    text = max(body_bytes - data, sum(map(_text_bytes, request.messages)))
    each = _IMAGE_TOKENS.get(model.partition("/")[0], _MOST_IMAGE_TOKENS)
    return text + ADDED_TOKENS + len(urls) * each


def require_price(catalog: Catalog, model: str) -> None:
    """Raise ConfigError when the price of `model` is unknown."""
    if catalog.cost(model, Usage()) is None:
        raise ConfigError(
            f"the price of {model} is unknown, so no budget can be enforced",
            hint=f'set it, in USD per million tokens: [prices."{model}"] '
            "input = …, output = …; or lift the limit",
        )


def require_bounds(model: str, extra_body: Collection[str], drop_params: Collection[str]) -> None:
    """Raise ConfigError when the settings change the request bodies for `model` so that a reply's
    length or price is no longer bounded."""
    caps = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
    bad = {*caps, "n", "service_tier"} & set(extra_body) | caps & set(drop_params)
    if bad:
        provider = model.partition("/")[0]
        raise ConfigError(
            f"no budget can be enforced while the settings of provider {provider} change "
            f"{', '.join(sorted(bad))} of its requests",
            hint=f"see extra_body and drop_params of [providers.{provider}], or lift the limit",
        )


def charged(catalog: Catalog, model: str, usage: Usage, most_usd: float) -> float | None:
    """Return the USD cost of a reply. If the server counts no tokens, that is the most it could
    have cost, or None without a limit (`most_usd` 0); it is None, too, if the price is unknown."""
    if usage.prompt_tokens or usage.completion_tokens:
        return catalog.cost(model, usage)
    return most_usd or None


def spent_usd(metrics: Mapping[str, Mapping[str, float | int | None]], catalog: Catalog) -> float:
    """Return the USD cost of what a session used so far, given by model; usage whose price was
    unknown then is charged at today's. Raises ConfigError when it is still unknown."""
    total = 0.0
    for model, used in metrics.items():
        cost = used.get("cost_usd")
        if cost is None:
            require_price(catalog, model)
            cost = catalog.cost(model, Usage.of(used))
        total += cost or 0.0
    return total


def _most(catalog: Catalog, model: str, tokens: int, output: int) -> float:
    """Return the USD cost of a call if all its input is charged at the highest input price; the
    price of `model` is known."""
    usages = (
        Usage(tokens, output),
        Usage(tokens, output, cache_write_tokens=tokens),
        Usage(tokens, output, cache_read_tokens=tokens),
    )
    return max(catalog.cost(model, usage) or 0.0 for usage in usages)


def _text_bytes(message: Message) -> int:
    size = len(message.content.encode(errors="replace"))
    for call in message.tool_calls:
        size += len(call.name) + len(call.arguments.encode(errors="replace"))
    if message.provider_data is not None:
        size += len(json.dumps(message.provider_data.items, ensure_ascii=False, default=str))
    return size


def _usd(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"
