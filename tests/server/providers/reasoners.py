"""Providers of reasoning models of their own: DeepSeek, Moonshot, Z.ai, MiniMax, Alibaba, xAI."""

from __future__ import annotations

from collections.abc import Iterator

from ..chat_answer import Style
from ..checks import array, boolean, integer, mapping, nullable, string
from ..schemas import moonshot_schema
from ..wire import new_id
from .provider import (
    Asked,
    Finds,
    Provider,
    Rule,
    comes_back,
    levels,
    no_forced_tools,
    refuses,
    too_long,
)

_REASONED = {"reasoning_content": nullable(string)}


def _is_thinking(asked: Asked) -> bool:
    return bool((asked.body.get("thinking") or {}).get("type") != "disabled")


def _always_thinks(says: str) -> Finds:
    def finds(asked: Asked) -> Iterator[str]:
        if not _is_thinking(asked):
            yield says

    return finds


# --- DeepSeek -----------------------------------------------------------------------------------

_DEEPSEEK_THINKING = "https://api-docs.deepseek.com/guides/thinking_mode"


def _no_images(asked: Asked) -> Iterator[str]:
    for index, message in enumerate(asked.messages):
        parts = message["content"] if isinstance(message.get("content"), list) else []
        if any(part.get("type") == "image_url" for part in parts):
            yield (
                "Failed to deserialize the JSON body into the target type: "
                f"messages[{index}]: unknown variant `image_url`, expected `text`"
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
        Rule(
            _parts,
            "https://github.com/QwenLM/qwen-code/issues/1779",
            models="^(?!.*vision)",
            kind="invalid_request_error",
        ),
        Rule(
            _no_images,
            "https://github.com/rikkahub/rikkahub/issues/1433",
            models="^(?!.*vision)",
            kind="invalid_request_error",
        ),
        Rule(
            comes_back(
                "reasoning_content",
                says="The `reasoning_content` in the thinking mode must be passed back to the API.",
                when=_is_thinking,
            ),
            _DEEPSEEK_THINKING,
            kind="invalid_request_error",
        ),
        Rule(
            no_forced_tools("Thinking mode does not support this tool_choice", _is_thinking),
            "https://github.com/XiaomiMiMo/MiMo-Code/issues/2068",
            kind="invalid_request_error",
        ),
    ),
    style=Style(usage="last", pause=b": keep-alive\n\n"),
    overflow=Rule(
        too_long(
            "This model's maximum context length is {window} tokens. However, you requested "
            "{tokens} tokens. Please reduce the length of the messages or completion.",
            with_output=True,
        ),
        "pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/providers/deepseek.py",
    ),
)

# --- Moonshot -----------------------------------------------------------------------------------

_KIMI = "MoonshotAI/kimi-cli packages/kosong/src/kosong/chat_provider/kimi.py"


def _empty_text(asked: Asked) -> Iterator[str]:
    """A text part without text; a message that is an empty text is taken."""
    for message in asked.messages:
        parts = message["content"] if isinstance(message.get("content"), list) else []
        if any(part.get("type") == "text" and not part["text"] for part in parts):
            yield "Invalid request: text content is empty"


def _kimi_schemas(asked: Asked) -> Iterator[str]:
    for tool in asked.body.get("tools") or []:
        yield from moonshot_schema(tool["function"].get("parameters") or {})


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
        Rule(
            comes_back(
                "reasoning_content",
                says="thinking is enabled but reasoning_content is missing in assistant tool call "
                "message at index {index}",
                when=_is_thinking,
                # Empty counts as missing for kimi-k2.6; a blank does not.
                filled=True,
            ),
            "https://github.com/earendil-works/pi/pull/4178",
        ),
        Rule(_empty_text, "https://github.com/BerriAI/litellm/issues/42186"),
        Rule(_kimi_schemas, "MoonshotAI/walle"),
        Rule(_sampling, _KIMI, models="^kimi-k2"),
        Rule(
            no_forced_tools("tool_choice 'required' is incompatible with thinking enabled"),
            "pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/providers/moonshotai.py",
        ),
        Rule(
            levels("low high max", says="invalid reasoning_effort: {value}"),
            _KIMI,
            models="^kimi-k3",
        ),
        Rule(
            _always_thinks("invalid thinking: only type=enabled is allowed for this model"),
            _KIMI,
            models="^kimi-k2.7",
        ),
        Rule(refuses("max_completion_tokens", says="`{name}` has no effect"), _KIMI, borne=True),
    ),
    style=Style(
        usage="choice", call_id=lambda _: f"functions.call:{new_id('', 6)}", whole_calls=False
    ),
    overflow=Rule(
        too_long(
            "Your request exceeded model token limit: {window} (requested: {tokens})",
            with_output=True,
        ),
        _KIMI,
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
        Rule(
            _always_thinks(
                "thinking.type disabled is not supported: use reasoning_effort low, high or max"
            ),
            _ZAI_THINKING,
            models=r"glm-5\.3",
        ),
        Rule(
            comes_back(
                "reasoning_content",
                says="message {index} came back without its reasoning_content",
                when=_is_thinking,
                own=_ZAI_CALL,
            ),
            _ZAI_THINKING,
            borne=True,
        ),
    ),
    style=Style(
        usage="last",
        whole_calls=True,
        call_id=lambda thought: new_id(_ZAI_CALL if thought else "call_", 19),
    ),
    error=_zai_error,
    overflow=Rule(
        too_long(
            "Invalid API parameter, please check the documentation. Request {tokens} input tokens "
            "exceeds the model's maximum context length {window}"
        ),
        "https://github.com/foreveryh/claude-code-switch/issues/12",
    ),
)

# --- MiniMax ------------------------------------------------------------------------------------


def _minimax_error(status: int, kind: str, message: str) -> object:
    """https://github.com/BigPizzaV3/CodexPlusPlus/issues/267."""
    word = kind or ("bad_request_error" if status < 500 else "server_error")
    error = {"type": word, "message": f"{message} (2013)", "http_code": str(status)}
    return {"type": "error", "error": error, "request_id": new_id("", 32)}


def _one_system(asked: Asked) -> Iterator[str]:
    if any(message["role"] in ("system", "developer") for message in asked.messages[1:]):
        yield "invalid params, chat content has invalid message role: system"


def _parameters(asked: Asked) -> Iterator[str]:
    if any(not tool["function"].get("parameters") for tool in asked.body.get("tools") or []):
        yield "invalid params, function parameters is empty"


def _minimax_thinking(asked: Asked) -> Iterator[str]:
    kind = (asked.body.get("thinking") or {}).get("type", "adaptive")
    if kind not in ("adaptive", "disabled"):
        yield f'invalid params, invalid thinking.type: "{kind}" (allowed: adaptive, disabled)'


_MINIMAX_CALL = "call_function_"
"""What ids of its own calls begin with, when it has reasoned before them."""


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
        Rule(_one_system, "https://github.com/BigPizzaV3/CodexPlusPlus/issues/267"),
        Rule(_parameters, "https://github.com/QwenLM/qwen-code/issues/11834"),
        Rule(_minimax_thinking, "https://github.com/CherryHQ/cherry-studio/issues/16431", api=""),
        Rule(
            refuses("tool_choice", says="invalid params, invalid chat setting"),
            "https://github.com/eastreams/loong/issues/382",
            models="M2",
            api="",
        ),
        Rule(
            _think_tags,
            "https://java.agentscope.io (MiniMax)",
            borne=True,
        ),
    ),
    style=Style(
        reasoning="<think>",
        usage="last",
        call_id=lambda thought: new_id(_MINIMAX_CALL if thought else "call_", 12),
    ),
    error=_minimax_error,
    overflow=Rule(
        too_long("invalid params, context window exceeds limit"),
        "earendil-works/pi packages/ai/src/utils/overflow.ts",
    ),
)

# --- Alibaba ------------------------------------------------------------------------------------

_DEEP_THINKING = "https://help.aliyun.com/en/model-studio/deep-thinking"


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
        Rule(_streams, _DEEP_THINKING, models="^qwen3-|-thinking", kind="invalid_parameter_error"),
        Rule(
            no_forced_tools(_FORCED, lambda asked: bool(asked.body.get("enable_thinking", True))),
            "https://github.com/cloudwego/eino/issues/994",
            models=r"^qwen3",
            kind="invalid_parameter_error",
        ),
    ),
    overflow=Rule(
        too_long(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be "
            "[1, {window}]"
        ),
        "https://github.com/QwenLM/qwen-code/issues/98",
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
            Rule(
                levels(allowed, member=member, says=_XAI_LEVEL),
                _XAI_REASONING,
                models=models,
                api="",
            )
            for models, allowed in {
                r"grok-4\.3": "none low medium high",
                r"grok-4\.[56]": "low medium high",
            }.items()
            for member in ("reasoning_effort", "reasoning.effort")
        ),
        Rule(
            refuses(
                "presence_penalty",
                "frequency_penalty",
                "stop",
                says="Argument not supported on this model: {name}",
            ),
            "https://github.com/n8n-io/n8n/issues/14581",
            models="^grok-4",
            api="",
        ),
        Rule(
            refuses(
                "reasoning_effort", says="Argument not supported on this model: reasoningEffort"
            ),
            "https://github.com/NousResearch/hermes-agent/pull/23435",
            models=r"^grok-(3$|4($|-)|code|build)",
        ),
    ),
    style=Style(whole_calls=True, usage="own"),
    error=_xai_error,
    overflow=Rule(
        too_long(
            "This model's maximum prompt length is {window} but the request contains {tokens} "
            "tokens."
        ),
        "earendil-works/pi packages/ai/src/utils/overflow.ts",
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
