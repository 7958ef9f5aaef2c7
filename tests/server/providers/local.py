"""Servers on people's own machines: Ollama, llama.cpp, vLLM, SGLang, LM Studio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..chat_answer import Style
from ..checks import boolean, integer, mapping, nullable, number, string
from .provider import Asked, Provider, Rule, nested_error, rule, too_long

_SAMPLING = {"top_k": integer(0), "min_p": number(0, 1), "repeat_penalty": number(0, 10)}


# --- Ollama -------------------------------------------------------------------------------------


def _ollama_error(status: int, kind: str, message: str) -> object:
    """https://github.com/ollama/ollama/issues/6027."""
    word = kind or ("api_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": word, "param": None, "code": None}}


@rule("https://github.com/ollama/ollama/issues/6027", models="no-tools")
def _without_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools"):
        yield f"registry.ollama.ai/library/{asked.body['model']} does not support tools"


def _null_content(says: str, *, source: str, **options: Any) -> Rule:
    @rule(source, **options)
    def find(asked: Asked) -> Iterator[str]:
        if any(reply.get("content") is None for _, reply in asked.replies):
            yield says

    return find


_OLLAMA = Provider(
    takes_in_replies={"reasoning": nullable(string)},
    ignores_unknown=True,
    keyless=True,
    rules=(
        # A name that is only here: which models have a template for tools, the server looks up.
        _without_tools,
        _null_content(
            "invalid message content type: <nil>",
            source="https://github.com/pydantic/pydantic-ai/issues/5206",
        ),
    ),
    # https://github.com/open-webui/computer/issues/224: 0 for every call.
    style=Style(reasoning="reasoning", index="zero", whole_calls=True),
    error=_ollama_error,
)

# --- llama.cpp ----------------------------------------------------------------------------------


def _llamacpp_error(status: int, kind: str, message: str) -> object:
    """https://github.com/ggml-org/llama.cpp/pull/15780."""
    return nested_error(status, kind or ("server_error" if status >= 500 else ""), message)


@rule(
    "https://github.com/defilantech/LLMKube/issues/126",
    models="no-jinja",
    status=500,
    kind="server_error",
)
def _no_jinja(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools"):
        yield "tools param requires --jinja flag"


@rule("llama.cpp tools/server/server-common.cpp", kind="invalid_request_error")
def _two_grammars(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools") and asked.body.get("grammar"):
        yield "Cannot use custom grammar constraints with tools."


_LLAMACPP = Provider(
    takes=_SAMPLING | {"chat_template_kwargs": mapping, "cache_prompt": boolean, "grammar": string},
    takes_in_replies={"reasoning_content": nullable(string)},
    ignores_unknown=True,
    keyless=True,
    rules=(_no_jinja, _two_grammars),
    style=Style(),
    error=_llamacpp_error,
    overflow=too_long(
        "the request exceeds the available context size ({window} tokens), try increasing it",
        source="https://github.com/ggml-org/llama.cpp/pull/15780",
        kind="exceed_context_size_error",
    ),
)

# --- vLLM, SGLang -------------------------------------------------------------------------------


def _vllm_error(status: int, kind: str, message: str) -> object:
    """https://github.com/langchain4j/langchain4j/issues/3475."""
    word = kind or {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
    return {"object": "error", "message": message, "type": word, "param": None, "code": status}


@rule("https://github.com/vllm-project/vllm/issues/9986", models="no-parser")
def _no_parser(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools") and asked.body.get("tool_choice", "auto") == "auto":
        yield (
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )


_VLLM = Provider(
    takes=_SAMPLING | {"chat_template_kwargs": mapping},
    takes_in_replies={"reasoning": nullable(string), "reasoning_content": nullable(string)},
    ignores_unknown=True,
    keyless=True,
    rules=(_no_parser,),
    style=Style(reasoning="reasoning"),
    error=_vllm_error,
    overflow=too_long(
        "This model's maximum context length is {window} tokens. However, you requested "
        "{output} output tokens and your prompt contains at least {tokens} input tokens. "
        "Please reduce the length of the input prompt or the number of requested output "
        "tokens.",
        with_output=True,
        source="https://github.com/vllm-project/vllm/issues/33418",
    ),
)
_SGLANG = Provider(
    takes=_SAMPLING | {"chat_template_kwargs": mapping, "separate_reasoning": boolean},
    takes_in_replies={"reasoning_content": nullable(string)},
    ignores_unknown=True,
    keyless=True,
    error=_vllm_error,
    overflow=too_long(
        "Requested token count exceeds the model's maximum context length of {window} tokens. "
        "You requested a total of {tokens} tokens.",
        with_output=True,
    ),
)

# --- LM Studio ----------------------------------------------------------------------------------

_LMSTUDIO = Provider(
    takes=_SAMPLING,
    rules=(
        _null_content(
            "Invalid 'content': 'content' field must be a string or an array of objects.",
            source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/261",
        ),
    ),
    takes_in_replies={"reasoning_content": nullable(string), "reasoning": nullable(string)},
    ignores_unknown=True,
    keyless=True,
    error=lambda status, kind, message: (
        {"error": {"type": kind, "message": message} if kind else message}
    ),
    overflow=too_long(
        "The number of tokens to keep from the initial prompt is greater than the context "
        "length. Try to load the model with a larger context length."
    ),
)

PROVIDERS = {
    "ollama": _OLLAMA,
    "llamacpp": _LLAMACPP,
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "lmstudio": _LMSTUDIO,
}
