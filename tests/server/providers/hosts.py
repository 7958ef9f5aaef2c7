"""Providers of open models, Mistral among them, and LiteLLM, which forwards to all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ..chat_answer import Style
from ..checks import boolean, integer, mapping, nullable, string
from ..wire import new_id
from .provider import Asked, Provider, as_json, flat_error, levels, refuses, rule, too_long

# --- Mistral ------------------------------------------------------------------------------------

_NINE = re.compile("[a-zA-Z0-9]{9}")
_MISTRAL_UNKNOWN = (
    "max_completion_tokens", "store", "service_tier", "verbosity", "logprobs", "top_logprobs",
    "seed", "logit_bias",
)  # fmt: skip


@rule("https://github.com/anomalyco/opencode/issues/1680", kind="invalid_function_call")
def _nine_letters(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        ids = [call["id"] for call in message.get("tool_calls") or []]
        ids += [message["tool_call_id"]] if message["role"] == "tool" else []
        for each in ids:
            if not _NINE.fullmatch(each):
                yield f"Tool call id was {each} but must be a-z, A-Z, 0-9, with a length of 9."


@rule("https://github.com/BerriAI/litellm/issues/6323", kind="invalid_request_message_order")
def _user_after_tool(asked: Asked) -> Iterator[str]:
    roles = [message["role"] for message in asked.messages]
    if any(pair == ("tool", "user") for pair in pairwise(roles)):
        yield "Unexpected role 'user' after role 'tool'"


@rule(
    "anomalyco/opencode packages/opencode/src/provider/transform.ts",
    kind="invalid_request_message_order",
)
def _last_role(asked: Asked) -> Iterator[str]:
    role = asked.messages[-1]["role"]
    if role not in ("user", "tool"):
        yield (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            f"{role}"
        )


def _mistral_error(status: int, kind: str, message: str) -> object:
    """https://github.com/zed-industries/zed/issues/53034, and for unknown members
    https://github.com/Gitlawb/openclaude/issues/739."""
    if status == 422:
        place, _, told = message.partition(": ")
        loc = ["body", *(int(part) if part.isdigit() else part for part in place.split("."))]
        return {"detail": [{"type": "extra_forbidden", "loc": loc, "msg": told, "input": None}]}
    code = {"invalid_function_call": "3280", "invalid_request_message_order": "3230"}.get(kind)
    word = kind or ("invalid_request_error" if status < 500 else "internal_server_error")
    return {"object": "error", "message": message, "type": word, "param": None, "code": code}


_MISTRAL = Provider(
    takes={"safe_prompt": boolean, "random_seed": nullable(integer(0)), "prompt_mode": string},
    takes_parts=("thinking",),
    unknown="{where}: Extra inputs are not permitted",
    unknown_status=422,
    rules=(
        refuses(
            *_MISTRAL_UNKNOWN,
            says="{name}: Extra inputs are not permitted",
            source="https://github.com/editor-code-assistant/eca/issues/231",
            status=422,
        ),
        _nine_letters,
        _user_after_tool,
        _last_role,
        levels(
            "none high",
            says="Invalid reasoning_effort: {value}",
            source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/models/mistral.py",
        ),
    ),
    style=Style(
        reasoning="thinking", call_id=lambda _: new_id("", 9), whole_calls=True, usage="last"
    ),
    error=_mistral_error,
    overflow=too_long(
        "Prompt contains {tokens} tokens and 0 draft tokens, too large for model with {window} "
        "maximum context length"
    ),
)

# --- Groq ---------------------------------------------------------------------------------------


@rule("https://console.groq.com/docs/reasoning")
def _raw_with_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("reasoning_format") == "raw" and asked.body.get("tools"):
        yield "reasoning_format must be one of hidden or parsed when using tools"


_GROQ = Provider(
    path="/openai/v1",
    takes={"reasoning_format": string, "include_reasoning": boolean},
    takes_in_replies={"reasoning": nullable(string)},
    unknown="property '{name}' is unsupported",
    rules=(
        refuses(
            "store",
            "prompt_cache_key",
            says="property '{name}' is unsupported",
            source="https://github.com/fanenr/chatbot/issues/21",
        ),
        _raw_with_tools,
        levels(
            "low medium high",
            says="`reasoning_effort` must be one of {allowed}",
            source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/profiles/groq.py",
            models="gpt-oss",
        ),
        levels(
            "none default",
            says="`reasoning_effort` must be one of {allowed}",
            source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/profiles/groq.py",
            models="qwen3",
        ),
    ),
    style=Style(reasoning="reasoning", whole_calls=True, usage="last"),
    overflow=too_long(
        "Please reduce the length of the messages or completion.", kind="context_length_exceeded"
    ),
)

# --- Cerebras -----------------------------------------------------------------------------------

_BARE = "no body"


def _cerebras_error(status: int, kind: str, message: str) -> object:
    """What doesn't fit in the window is refused without a body."""
    return None if kind == _BARE else flat_error(status, kind, message)


_CEREBRAS = Provider(
    takes={"clear_thinking": boolean, "disable_reasoning": boolean},
    takes_in_replies={"reasoning": nullable(string)},
    unknown="{where}: property '{where}' is unsupported",
    rules=(
        refuses(
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "service_tier",
            "store",
            "verbosity",
            says="body.{name}: property 'body.{name}' is unsupported",
            source="https://github.com/anomalyco/opencode/issues/6648",
            kind="wrong_api_format",
        ),
        refuses(
            "parallel_tool_calls",
            says="{name} is not supported by this model.",
            source="https://github.com/agno-agi/agno/issues/4508",
            kind="wrong_api_format",
        ),
        levels(
            "low medium high",
            says="reasoning_effort must be one of {allowed}",
            source="https://inference-docs.cerebras.ai/capabilities/reasoning",
            models="gpt-oss",
            kind="wrong_api_format",
        ),
    ),
    style=Style(reasoning="reasoning", usage="last", whole_calls=True),
    error=_cerebras_error,
    overflow=too_long(_BARE, kind=_BARE),
)

# --- Together, Fireworks, Hugging Face ----------------------------------------------------------

_TOGETHER = Provider(
    takes={"reasoning": mapping, "chat_template_kwargs": mapping},
    takes_in_replies={"reasoning": nullable(string), "reasoning_content": nullable(string)},
    ignores_unknown=True,
    rules=(
        refuses(
            "max_completion_tokens",
            says="`{name}` has no effect",
            source="earendil-works/pi packages/ai/src/providers/openai-completions.ts",
            borne=True,
        ),
    ),
    style=Style(reasoning="reasoning", usage="own"),
    overflow=too_long(
        "The input ({tokens} tokens) is longer than the model's context length ({window} tokens)."
    ),
)


def _fireworks_error(status: int, kind: str, message: str) -> object:
    word = kind or ("invalid_request_error" if status < 500 else "internal_server_error")
    return {"error": {"object": "error", "type": word, "code": word, "message": message}}


_FIREWORKS = Provider(
    path="/inference/v1",
    takes={"reasoning_history": string, "thinking": mapping, "prompt_cache_isolation_key": string},
    takes_in_replies={"reasoning_content": nullable(string)},
    unknown="Extra inputs are not permitted, field: '{where}'",
    rules=(
        refuses(
            "store",
            says="Extra inputs are not permitted, field: '{name}', value: False",
            source="https://github.com/web-infra-dev/midscene/issues/1322",
        ),
    ),
    style=Style(usage="last"),
    error=_fireworks_error,
)


_HUGGINGFACE = Provider(
    takes_in_replies={"reasoning": nullable(string), "reasoning_content": nullable(string)},
    ignores_unknown=True,
    style=Style(reasoning="reasoning", usage="own"),
)

# --- LiteLLM ------------------------------------------------------------------------------------


@rule("https://github.com/camel-ai/owl/issues/532", models="claude")
def _tools_for_calls(asked: Asked) -> Iterator[str]:
    called = any(reply.get("tool_calls") for _, reply in asked.replies)
    if called and "tools" not in asked.body:
        yield (
            "Anthropic doesn't support tool calling without `tools=` param specified. Pass "
            "`tools=` param OR set `litellm.modify_params = True` // `litellm_settings::"
            "modify_params: True` to add dummy tool to the request."
        )


def _litellm_error(status: int, kind: str, message: str) -> object:
    """https://github.com/camel-ai/owl/issues/532."""
    names = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError",
             408: "Timeout", 429: "RateLimitError", 503: "ServiceUnavailableError"}  # fmt: skip
    name = names.get(status, "InternalServerError" if status >= 500 else "APIError")
    told = f"litellm.{name}: {message}"
    word = kind if kind.endswith("_error") or kind == "insufficient_quota" else None
    return {"error": {"message": told, "type": word, "param": None, "code": kind or str(status)}}


_LITELLM = Provider(
    path="",
    takes={"thinking": mapping, "user_config": mapping},
    takes_in_replies={
        "reasoning_content": nullable(string),
        "thinking_blocks": lambda value: "" if isinstance(value, list | None) else "an array",
        "provider_specific_fields": nullable(mapping),
    },
    takes_in_calls={"provider_specific_fields": nullable(mapping), "extra_content": mapping},
    takes_in_parts=("cache_control",),
    rules=(_tools_for_calls,),
    style=Style(usage="own"),
    error=_litellm_error,
    overflow=too_long(
        "ContextWindowExceededError: AnthropicException - "
        + as_json({"type": "error", "error": {"message": "prompt is too long"}})
        .replace("{", "{{")
        .replace("}", "}}")
    ),
)

PROVIDERS = {
    "mistral": _MISTRAL,
    "groq": _GROQ,
    "cerebras": _CEREBRAS,
    "together": _TOGETHER,
    "fireworks": _FIREWORKS,
    "huggingface": _HUGGINGFACE,
    "litellm": _LITELLM,
}
