"""Anthropic's own API, by model.

Models: https://platform.claude.com/docs/en/about-claude/models/overview and its "what's new" pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .. import anthropic_messages
from ..wire import unseal
from .provider import Asked, Provider, Rule, levels, rule

_MODELS = "https://platform.claude.com/docs/en/about-claude/models/overview"
_VERSIONING = "https://platform.claude.com/docs/en/api/versioning"
_PRESERVED = "https://platform.claude.com/docs/en/build-with-claude/preserved-thinking"
_EXTENDED = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"

_ALWAYS_THINKING = r"claude-(fable|mythos)-5|claude-(opus|sonnet)-5-5"
_BOUND = r"claude-(fable|mythos)-5-\d|claude-(opus|sonnet|haiku)-5-5"
_ADAPTIVE = r"claude-\w+-5|claude-opus-4-[78]"
"""Take no budget."""
_BOTH = r"claude-(opus|sonnet)-4-6"
_BUDGET = r"claude-(opus|sonnet|haiku)-4-5"
_NO_PREFILL = r"claude-\w+-(5|4-[678])"
_FIRST_STRICT_VERSION = "2026-10-21"
_BINDING_BETA = "thinking-binding-controls-2026-08-01"


@rule(_VERSIONING)
def _sampling(asked: Asked) -> Iterator[str]:
    if asked.headers.get("anthropic-version", "") >= _FIRST_STRICT_VERSION:
        for name in ("temperature", "top_p", "top_k"):
            if name in asked.body:
                yield f"{name}: Extra inputs are not permitted"


@rule("https://github.com/Comfy-Org/ComfyUI/issues/13923", models=_ADAPTIVE)
def _deprecated_sampling(asked: Asked) -> Iterator[str]:
    if asked.headers.get("anthropic-version", "") < _FIRST_STRICT_VERSION:
        for name in ("temperature", "top_p", "top_k"):
            if name in asked.body:
                yield f"`{name}` is deprecated for this model."


def _kind(asked: Asked) -> str:
    return str((asked.body.get("thinking") or {}).get("type", ""))


def _no_thinking_type(kind: str, instead: str, *, source: str, **options: Any) -> Rule:
    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        if _kind(asked) == kind:
            yield f'"thinking.type.{kind}" is not supported for this model. {instead}'

    return finds


@rule(_MODELS, models=r"claude-(sonnet|haiku)-4-5")
def _no_effort(asked: Asked) -> Iterator[str]:
    if (asked.body.get("output_config") or {}).get("effort"):
        yield "This model does not support the effort parameter."


@rule(_MODELS, models=_ALWAYS_THINKING)
def _forced(asked: Asked) -> Iterator[str]:
    choice = (asked.body.get("tool_choice") or {}).get("type")
    if choice in ("any", "tool"):
        yield f'tool_choice: "{choice}" is not supported for this model. Use "auto".'


@rule(
    "https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6",
    models=_NO_PREFILL,
)
def _prefill(asked: Asked) -> Iterator[str]:
    if asked.messages[-1]["role"] == "assistant":
        yield (
            "This model does not support assistant message prefill. The conversation must end with "
            "a user message."
        )


@rule(_PRESERVED, models=_BOUND)
def _bound(asked: Asked) -> Iterator[str]:
    """A thinking block stands behind the very conversation that led to it, unless the request lets
    it be dropped."""
    binding = (asked.body.get("thinking") or {}).get("block_binding") or {}
    if binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    before = anthropic_messages.prefixes(asked.body)
    for index, message in asked.replies:
        content = message["content"]
        for place, block in enumerate(content if isinstance(content, list) else []):
            sealed = unseal(block["signature"]) if block["type"] == "thinking" else None
            if sealed and sealed[1] and sealed[1] != before[index]:
                yield (
                    f"messages.{index}.content.{place}: Invalid `signature` in `thinking` block. "
                    "The block is bound to a different conversation. Remove the block, or set "
                    "`thinking.block_binding.prefix_mismatch_behavior` to `drop_block`."
                )


@rule(_PRESERVED)
def _binding_beta(asked: Asked) -> Iterator[str]:
    binds = "block_binding" in (asked.body.get("thinking") or {})
    if binds and _BINDING_BETA not in asked.headers.get("anthropic-beta", ""):
        yield "thinking.adaptive.block_binding: Extra inputs are not permitted"


def _levels(allowed: str, *, models: str, source: str) -> Rule:
    named = ", ".join(sorted(allowed.split()))
    says = f"This model does not support effort level '{{value}}'. Supported levels: {named}."
    return levels(allowed, member="output_config.effort", says=says, models=models, source=source)


@rule(_MODELS, models=r"claude-(haiku-5-5|opus-5)$")
def _effort_disabled(asked: Asked) -> Iterator[str]:
    effort = (asked.body.get("output_config") or {}).get("effort")
    if _kind(asked) == "disabled" and effort in ("xhigh", "max"):
        yield f"thinking: disabled thinking is not supported with effort '{effort}'."


_USE_ADAPTIVE = (
    'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
)
_USE_BUDGET = 'Use "thinking.type.enabled" and "thinking.budget_tokens".'
_RULES = (
    _sampling,
    _deprecated_sampling,
    _no_thinking_type(
        "enabled",
        _USE_ADAPTIVE,
        source="https://github.com/NousResearch/hermes-agent/issues/11137",
        models=_ADAPTIVE,
    ),
    _no_thinking_type(
        "disabled",
        _USE_ADAPTIVE,
        source="https://github.com/AAClause/nvda-OpenAI/issues/126",
        models=_ALWAYS_THINKING,
    ),
    _no_thinking_type("adaptive", _USE_BUDGET, source=_MODELS, models=_BUDGET),
    _no_effort,
    _levels("low medium high", source=_MODELS, models="claude-opus-4-5"),
    _levels("low medium high max", source=_MODELS, models=_BOTH),
    _effort_disabled,
    _forced,
    _prefill,
    _bound,
    _binding_beta,
)
PROVIDERS = {
    "anthropic": Provider(
        path="",
        bound=_BOUND,
        hidden=_ADAPTIVE,
        rules=[replace(rule, api=anthropic_messages.NAME) for rule in _RULES],
    )
}
