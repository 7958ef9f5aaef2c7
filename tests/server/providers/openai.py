"""OpenAI's own two APIs, and Azure's, which are the same behind another door."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from .. import responses
from ..chat_answer import Style
from ..wire import digest, event, unseal
from .provider import Asked, Provider, Rule, levels, refuses, rule

_DEPLOYMENT = "https://developers.openai.com/api/docs/guides/deployment-checklist"
_PROFILES = "pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/profiles/openai.py"
_PARAMETERS = "openai/openai-python src/openai/types/chat/completion_create_params.py"
_REASONS = r"^(gpt-[5-9]|o\d)"
_NEWEST = r"^gpt-(6(\.\d)?-(astra|sol|terra)|6\.\d)"
_ALWAYS_REASONS = rf"{_NEWEST}(?<!gpt-6-sol)"
_EFFORTS = {
    _ALWAYS_REASONS: "low medium high xhigh max",
    r"^gpt-(6-sol|6-luna|5\.6)": "none low medium high xhigh max",
    r"^gpt-5\.[2345](?!.*-pro)": "none low medium high xhigh",
    r"^gpt-5\.1$": "none low medium high",
    r"^gpt-5(-|$)": "minimal low medium high",
    r"^o\d": "low medium high",
}
"""The levels of effort by model."""
_LEVEL = "Unsupported value: '{value}' is not supported with this model. Supported values are: "


def _efforts(member: str) -> list[Rule]:
    says = f"{_LEVEL}{{allowed}}."
    return [
        levels(
            allowed,
            member=member,
            says=says,
            source=_PROFILES,
            models=models,
            kind="unsupported_value",
            api="",
        )
        for models, allowed in _EFFORTS.items()
    ]


@rule("https://github.com/BerriAI/litellm/issues/40123", models=r"^gpt-(5\.6|[6-9])")
def _tools_and_effort(asked: Asked) -> Iterator[str]:
    """Tools only without reasoning, which is on if nothing is said of it."""
    if asked.body.get("tools") and asked.body.get("reasoning_effort") != "none":
        yield (
            f"Function tools with reasoning_effort are not supported for {asked.body['model']} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'."
        )


def _reasons(asked: Asked) -> bool:
    effort = asked.body.get("reasoning_effort") or (asked.body.get("reasoning") or {}).get("effort")
    if effort is not None:
        return bool(effort != "none")
    return not re.search(r"^gpt-5\.[1234]", str(asked.body["model"]))


def _sampling(asked: Asked) -> Iterator[str]:
    names = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
    if _reasons(asked):
        for name in names:
            if asked.body.get(name) is not None:
                yield f"Unsupported parameter: '{name}' is not supported with this model."


@rule(
    "https://github.com/openai/codex/issues/8145",
    kind="invalid_encrypted_content",
    api=responses.NAME,
)
def _other_account(asked: Asked) -> Iterator[str]:
    for item in _items(asked):
        sealed = unseal(item.get("encrypted_content") or "")
        if sealed and sealed[1] not in ("", digest(asked.account)):
            yield (
                f"The encrypted content for item {item.get('id')} could not be verified. Reason: "
                "Encrypted content organization_id did not match the target organization."
            )


@rule(
    "openai/openai-python src/openai/types/responses/response_output_message_param.py",
    models=r"^gpt-(5\.[3-9]|[6-9])",
    borne=True,
    api=responses.NAME,
)
def _phase(asked: Asked) -> Iterator[str]:
    """A message that a reasoning item led to, and that lost its phase."""
    items = _items(asked)
    for before, item in pairwise(items):
        is_reply = before.get("type") == "reasoning" and item.get("role") == "assistant"
        if is_reply and not item.get("phase"):
            yield f"the message after {before['id']} came back without its `phase`"


def _items(asked: Asked) -> list[dict[str, Any]]:
    found = asked.body.get("input")
    return found if isinstance(found, list) else []


_OPENAI = Provider(
    bound=".",
    phased=r"^gpt-(5\.[3-9]|[6-9])",
    rules=(
        *_efforts("reasoning.effort"),
        Rule(_sampling, _DEPLOYMENT, models=_REASONS, kind="unsupported_parameter", api=""),
        _other_account,
        _phase,
    ),
)
_CHAT_RULES = (
    *_efforts("reasoning_effort"),
    Rule(_sampling, _DEPLOYMENT, models=_REASONS, kind="unsupported_parameter"),
    refuses(
        "max_tokens",
        says="Unsupported parameter: '{name}' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        source=_PARAMETERS,
        models=_REASONS,
        kind="unsupported_parameter",
    ),
    _tools_and_effort,
)
_FILTERED = {
    name: {"filtered": False, "severity": "safe"}
    for name in ("hate", "self_harm", "sexual", "violence")
}
_PROMPT_FILTER = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _FILTERED}],
}
PROVIDERS = {
    "openai": _OPENAI,
    "openai-chat": Provider(rules=_CHAT_RULES, style=Style(reasoning="")),
    # https://github.com/microsoft/semantic-kernel/issues/3650: nothing in a stream's first choices.
    "azure": replace(
        _OPENAI,
        path="/openai/v1",
        rules=(*_OPENAI.rules, *_CHAT_RULES),
        style=Style(reasoning="", opening=event(_PROMPT_FILTER)),
    ),
}
