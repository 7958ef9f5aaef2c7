"""Providers of reasoning models of their own: DeepSeek, Moonshot, Z.ai, MiniMax, Alibaba, xAI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..chat_answer import Style
from ..checks import array, boolean, integer, mapping, nullable, string
from ..schemas import moonshot_schema
from ..wire import new_id
from .provider import (
    Asked,
    Provider,
    Rule,
    comes_back,
    levels,
    no_forced_tools,
    refuses,
    rule,
    too_long,
)

_REASONED = {"reasoning_content": nullable(string)}


def _is_thinking(asked: Asked) -> bool:
    return bool((asked.body.get("thinking") or {}).get("type") != "disabled")


def _always_thinks(says: str, *, source: str, **options: Any) -> Rule:
    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        if not _is_thinking(asked):
            yield says

    return finds


# --- DeepSeek -----------------------------------------------------------------------------------

_DEEPSEEK_THINKING = "https://api-docs.deepseek.com/guides/thinking_mode"


@rule(
    "https://github.com/rikkahub/rikkahub/issues/1433",
    models="^(?!.*vision)",
    kind="invalid_request_error",
)
def _no_images(asked: Asked) -> Iterator[str]:
    for index, message in enumerate(asked.messages):
        parts = message["content"] if isinstance(message.get("content"), list) else []
        if any(part.get("type") == "image_url" for part in parts):
            yield (
                "Failed to deserialize the JSON body into the target type: "
                f"messages[{index}]: unknown variant `image_url`, expected `text`"
            )


@rule(
    "https://github.com/QwenLM/qwen-code/issues/1779",
    models="^(?!.*vision)",
    kind="invalid_request_error",
)
def _parts(asked: Asked) -> Iterator[str]:
    for n, message in enumerate(asked.messages):
        if isinstance(message.get("content"), list):
            yield (
                "Failed to deserialize the JSON body into the target type: "
                f"messages[{n}]: invalid type: sequence, expected a string at line 1 column 65"
            )


_DEEPSEEK = Provider(
    path="",
    messages_path="/anthropic",
    takes={"thinking": mapping},
    takes_in_replies=_REASONED,
    ignores_unknown=True,
    rules=(
        _parts,
        _no_images,
        comes_back(
            "reasoning_content",
            says="The `reasoning_content` in the thinking mode must be passed back to the API.",
            when=_is_thinking,
            source=_DEEPSEEK_THINKING,
            kind="invalid_request_error",
        ),
        no_forced_tools(
            "Thinking mode does not support this tool_choice",
            _is_thinking,
            source="https://github.com/XiaomiMiMo/MiMo-Code/issues/2068",
            kind="invalid_request_error",
        ),
    ),
    style=Style(usage="last", pause=b": keep-alive\n\n"),
    overflow=too_long(
        "This model's maximum context length is {window} tokens. However, you requested "
        "{tokens} tokens. Please reduce the length of the messages or completion.",
        with_output=True,
        source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/providers/deepseek.py",
    ),
)

# --- Moonshot -----------------------------------------------------------------------------------

_KIMI = "MoonshotAI/kimi-cli packages/kosong/src/kosong/chat_provider/kimi.py"


@rule("https://github.com/BerriAI/litellm/issues/42186")
def _empty_text(asked: Asked) -> Iterator[str]:
    """A text part without text; a message that is an empty text is taken."""
    for message in asked.messages:
        parts = message["content"] if isinstance(message.get("content"), list) else []
        if any(part.get("type") == "text" and not part["text"] for part in parts):
            yield "Invalid request: text content is empty"


@rule("MoonshotAI/walle")
def _kimi_schemas(asked: Asked) -> Iterator[str]:
    for tool in asked.body.get("tools") or []:
        yield from moonshot_schema(tool["function"].get("parameters") or {})


@rule(_KIMI, models="^kimi-k2")
def _sampling(asked: Asked) -> Iterator[str]:
    fixed = {"temperature": 1 if _is_thinking(asked) else 0.6, "top_p": 0.95}
    for name, only in fixed.items():
        if asked.body.get(name, only) != only:
            yield f"invalid {name}: only {only} is allowed for this model"


_MOONSHOT = Provider(
    takes={"thinking": mapping},
    takes_in_replies=_REASONED,
    ignores_unknown=True,
    rules=(
        comes_back(
            "reasoning_content",
            says="thinking is enabled but reasoning_content is missing in assistant tool call "
            "message at index {index}",
            when=_is_thinking,
            filled=True,
            source="https://github.com/earendil-works/pi/pull/4178",
        ),
        _empty_text,
        _kimi_schemas,
        _sampling,
        no_forced_tools(
            "tool_choice 'required' is incompatible with thinking enabled",
            source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/providers/moonshotai.py",
        ),
        levels(
            "low high max",
            says="invalid reasoning_effort: {value}",
            source=_KIMI,
            models="^kimi-k3",
        ),
        _always_thinks(
            "invalid thinking: only type=enabled is allowed for this model",
            source=_KIMI,
            models="^kimi-k2.7",
        ),
        refuses("max_completion_tokens", says="`{name}` has no effect", source=_KIMI, borne=True),
    ),
    style=Style(
        usage="choice", call_id=lambda _: f"functions.call:{new_id('', 6)}", whole_calls=False
    ),
    overflow=too_long(
        "Your request exceeded model token limit: {window} (requested: {tokens})",
        with_output=True,
        source=_KIMI,
    ),
)

# --- Z.ai ---------------------------------------------------------------------------------------

_ZAI_THINKING = "https://docs.z.ai/guides/capabilities/thinking-mode"


_ZAI_CALL = "call_-"
"""What ids of its own calls begin with, when it has reasoned before them."""


def _zai_error(status: int, kind: str, message: str) -> object:
    """Codes are texts: https://github.com/Kilo-Org/kilocode/issues/13069."""
    codes = {400: "1210", 401: "1000", 402: "1113", 404: "1211", 429: "1302"}
    code = kind if kind.isdigit() else codes.get(status, "500")
    words = {"type": kind} if kind and not kind.isdigit() else {}
    return {"error": {"code": code, "message": message} | words}


_ZAI = Provider(
    path="/api/paas/v4",
    takes={"thinking": mapping, "tool_stream": boolean},
    takes_in_replies=_REASONED,
    ignores_unknown=True,
    rules=(
        _always_thinks(
            "thinking.type disabled is not supported: use reasoning_effort low, high or max",
            source=_ZAI_THINKING,
            models=r"glm-5\.3",
        ),
        comes_back(
            "reasoning_content",
            says="message {index} came back without its reasoning_content",
            when=_is_thinking,
            own=_ZAI_CALL,
            source=_ZAI_THINKING,
            borne=True,
        ),
    ),
    style=Style(
        usage="last",
        whole_calls=True,
        call_id=lambda thought: new_id(_ZAI_CALL if thought else "call_", 19),
    ),
    error=_zai_error,
    overflow=too_long(
        "Invalid API parameter, please check the documentation. Request {tokens} input tokens "
        "exceeds the model's maximum context length {window}",
        source="https://github.com/foreveryh/claude-code-switch/issues/12",
    ),
)

# --- MiniMax ------------------------------------------------------------------------------------


def _minimax_error(status: int, kind: str, message: str) -> object:
    """https://github.com/BigPizzaV3/CodexPlusPlus/issues/267."""
    word = kind or ("bad_request_error" if status < 500 else "server_error")
    error = {"type": word, "message": f"{message} (2013)", "http_code": str(status)}
    return {"type": "error", "error": error, "request_id": new_id("", 32)}


@rule("https://github.com/BigPizzaV3/CodexPlusPlus/issues/267")
def _one_system(asked: Asked) -> Iterator[str]:
    if any(message["role"] in ("system", "developer") for message in asked.messages[1:]):
        yield "invalid params, chat content has invalid message role: system"


@rule("https://github.com/QwenLM/qwen-code/issues/11834")
def _parameters(asked: Asked) -> Iterator[str]:
    if any(not tool["function"].get("parameters") for tool in asked.body.get("tools") or []):
        yield "invalid params, function parameters is empty"


@rule("https://github.com/CherryHQ/cherry-studio/issues/16431", api="")
def _minimax_thinking(asked: Asked) -> Iterator[str]:
    kind = (asked.body.get("thinking") or {}).get("type", "adaptive")
    if kind not in ("adaptive", "disabled"):
        yield f'invalid params, invalid thinking.type: "{kind}" (allowed: adaptive, disabled)'


_MINIMAX_CALL = "call_function_"
"""What ids of its own calls begin with, when it has reasoned before them."""


@rule("https://java.agentscope.io (MiniMax)", borne=True)
def _think_tags(asked: Asked) -> Iterator[str]:
    """The model's thinking, which came in its content, went back with it."""
    for index, reply in asked.replies:
        own = any(call["id"].startswith(_MINIMAX_CALL) for call in reply.get("tool_calls") or [])
        if own and not reply.get("reasoning_details") and "<think>" not in str(reply["content"]):
            yield f"message {index} came back without its thinking"


_MINIMAX = Provider(
    messages_path="/anthropic",
    takes={"thinking": mapping, "reasoning_split": boolean},
    takes_in_replies={"reasoning_details": array},
    ignores_unknown=True,
    rules=(
        _one_system,
        _parameters,
        _minimax_thinking,
        refuses(
            "tool_choice",
            says="invalid params, invalid chat setting",
            source="https://github.com/eastreams/loong/issues/382",
            models="M2",
            api="",
        ),
        _think_tags,
    ),
    style=Style(
        reasoning="<think>",
        usage="last",
        call_id=lambda thought: new_id(_MINIMAX_CALL if thought else "call_", 12),
    ),
    error=_minimax_error,
    overflow=too_long("invalid params, context window exceeds limit"),
)

# --- Alibaba ------------------------------------------------------------------------------------

_DEEP_THINKING = "https://help.aliyun.com/en/model-studio/deep-thinking"


@rule(_DEEP_THINKING, models="^qwen3-|-thinking", kind="invalid_parameter_error")
def _streams(asked: Asked) -> Iterator[str]:
    if asked.body.get("enable_thinking", True) and not asked.body.get("stream"):
        yield (
            "<400> InternalError.Algo.InvalidParameter: parameter.enable_thinking must be set to "
            "false for non-streaming calls"
        )


_FORCED = (
    "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being "
    "set to required or object in thinking mode"
)
_DASHSCOPE = Provider(
    path="/compatible-mode/v1",
    takes={
        "enable_thinking": boolean,
        "thinking_budget": integer(1),
        "preserve_thinking": boolean,
        "incremental_output": boolean,
    },
    takes_in_replies=_REASONED,
    takes_in_parts=("cache_control",),
    ignores_unknown=True,
    rules=(
        _streams,
        no_forced_tools(
            _FORCED,
            lambda asked: bool(asked.body.get("enable_thinking", True)),
            source="https://github.com/cloudwego/eino/issues/994",
            models=r"^qwen3",
            kind="invalid_parameter_error",
        ),
    ),
    overflow=too_long(
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, {window}]",
        source="https://github.com/QwenLM/qwen-code/issues/98",
        kind="invalid_parameter_error",
    ),
)

# --- xAI ----------------------------------------------------------------------------------------


def _xai_error(status: int, kind: str, message: str) -> object:
    """https://github.com/yym68686/uni-api/issues/105."""
    code = kind or "Client specified an invalid argument"
    return {"code": code, "error": message}


_XAI_REASONING = "https://docs.x.ai/developers/model-capabilities/text/reasoning"
_XAI_LEVEL = "This model does not support 'reasoning_effort' value '{value}'"
_XAI = Provider(
    takes_in_replies=_REASONED,
    ignores_unknown=True,
    rules=(
        *(
            levels(
                allowed,
                member=member,
                says=_XAI_LEVEL,
                source=_XAI_REASONING,
                models=models,
                api="",
            )
            for models, allowed in {
                r"grok-4\.3": "none low medium high",
                r"grok-4\.[56]": "low medium high",
            }.items()
            for member in ("reasoning_effort", "reasoning.effort")
        ),
        refuses(
            "presence_penalty",
            "frequency_penalty",
            "stop",
            says="Argument not supported on this model: {name}",
            source="https://github.com/n8n-io/n8n/issues/14581",
            models="^grok-4",
            api="",
        ),
        refuses(
            "reasoning_effort",
            says="Argument not supported on this model: reasoningEffort",
            source="https://github.com/NousResearch/hermes-agent/pull/23435",
            models=r"^grok-(3$|4($|-)|code|build)",
        ),
    ),
    style=Style(whole_calls=True, usage="own"),
    error=_xai_error,
    overflow=too_long(
        "This model's maximum prompt length is {window} but the request contains {tokens} tokens."
    ),
)


PROVIDERS = {
    "deepseek": _DEEPSEEK,
    "moonshot": _MOONSHOT,
    "zai": _ZAI,
    "minimax": _MINIMAX,
    "dashscope": _DASHSCOPE,
    "xai": _XAI,
}
