"""OpenAI Chat Completions: what it refuses, and what its answers look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .chat_answer import render
from .checks import (
    OPENAI,
    Shape,
    boolean,
    either,
    filled,
    filled_array,
    integer,
    mapping,
    matching,
    nullable,
    number,
    one_of,
    string,
    strings,
)
from .conversation import Part, part
from .images import openai_images
from .schemas import openai_schema

__all__ = ["NAME", "PATH", "parts", "render", "validate"]

NAME = "chat_completions"
PATH = "/chat/completions"

_FUNCTION_NAME = matching("[a-zA-Z0-9_-]{1,64}")
# Longer ids, such as another protocol's, are refused: "string too long".
_CALL_ID = matching("(?s).{1,40}")
_EFFORT = one_of("none", "minimal", "low", "medium", "high", "xhigh", "max")
_TIER = one_of("auto", "default", "flex", "scale", "priority", "fast")
_TOOL_CHOICE = either(one_of("none", "auto", "required"), mapping)

_BODY = Shape(
    required={"model": filled, "messages": filled_array},
    optional={
        "audio": nullable(mapping),
        "frequency_penalty": nullable(number(-2, 2)),
        "logit_bias": nullable(mapping),
        "logprobs": nullable(boolean),
        "max_completion_tokens": nullable(integer(1)),
        "max_tokens": nullable(integer(1)),
        "metadata": nullable(mapping),
        "modalities": nullable(strings),
        "moderation": nullable(mapping),
        "n": nullable(one_of(1)),
        "parallel_tool_calls": boolean,
        "prediction": nullable(mapping),
        "presence_penalty": nullable(number(-2, 2)),
        "prompt_cache_key": nullable(string),
        "prompt_cache_options": mapping,
        "prompt_cache_retention": nullable(one_of("in_memory", "24h")),
        "reasoning_effort": nullable(_EFFORT),
        "response_format": mapping,
        "safety_identifier": nullable(string),
        "seed": nullable(integer(-(2**63))),
        "service_tier": nullable(_TIER),
        "stop": nullable(either(string, strings)),
        "store": nullable(boolean),
        "stream": nullable(boolean),
        "stream_options": nullable(mapping),
        "temperature": nullable(number(0, 2)),
        "tool_choice": _TOOL_CHOICE,
        "tools": filled_array,
        "top_logprobs": nullable(integer(0, 20)),
        "top_p": nullable(number(0, 1)),
        "user": string,
        "verbosity": nullable(one_of("low", "medium", "high")),
        "web_search_options": mapping,
    },
)
_STREAM_OPTIONS = Shape({}, {"include_usage": boolean, "include_obfuscation": boolean})
_TOOL = Shape({"type": one_of("function"), "function": mapping})
_FUNCTION = Shape(
    {"name": _FUNCTION_NAME},
    {"description": string, "parameters": mapping, "strict": nullable(boolean)},
)
_NAMED_CHOICE = {
    "function": Shape({"type": filled, "function": mapping}),
    "allowed_tools": Shape({"type": filled, "allowed_tools": mapping}),
}
_FORMATS = {
    "text": Shape({"type": filled}),
    "json_object": Shape({"type": filled}),
    "json_schema": Shape({"type": filled, "json_schema": mapping}),
}

_PROMPT = Shape({"role": filled, "content": either(string, filled_array)}, {"name": string})
_MESSAGES = {
    "system": _PROMPT,
    "developer": _PROMPT,
    "user": _PROMPT,
    "assistant": Shape(
        {"role": filled},
        {
            "content": nullable(either(string, filled_array)),
            "name": string,
            "refusal": nullable(string),
            "audio": nullable(mapping),
            "tool_calls": filled_array,
        },
    ),
    "tool": Shape(
        {"role": filled, "content": either(string, filled_array), "tool_call_id": _CALL_ID}
    ),
}
_MARK = "prompt_cache_breakpoint"
_TEXT = {"text": Shape({"type": filled, "text": string}, {_MARK: mapping})}
_CONTENT = {
    "system": _TEXT,
    "developer": _TEXT,
    "tool": _TEXT,
    "assistant": _TEXT | {"refusal": Shape({"type": filled, "refusal": string})},
    "user": _TEXT
    | {
        "image_url": Shape({"type": filled, "image_url": mapping}, {_MARK: mapping}),
        "input_audio": Shape({"type": filled, "input_audio": mapping}, {_MARK: mapping}),
        "file": Shape({"type": filled, "file": mapping}, {_MARK: mapping}),
    },
}
_IMAGE = Shape(
    {"url": matching(r"https?://.+|data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*")},
    {"detail": one_of("auto", "low", "high", "original")},
)
_CALL = Shape({"id": _CALL_ID, "type": one_of("function"), "function": mapping})
_CALLED = Shape({"name": _FUNCTION_NAME, "arguments": string})
FIELDS = {
    place: {*shape.required, *shape.optional}
    for place, shape in {"body": _BODY, "reply": _MESSAGES["assistant"], "call": _CALL}.items()
}
"""The members that OpenAI knows of a body, of a model's own message, and of a call."""


def validate(body: dict[str, Any], _headers: Mapping[str, str], /) -> list[str]:
    """Everything the real endpoint would refuse this body for; empty when it would take it."""
    faults = list(OPENAI.faults(body, "", _BODY))
    if faults:
        return faults
    faults += _options(body)
    faults += _tools(body)
    for where, message in OPENAI.items(body["messages"], "messages"):
        faults += _message(message, where)
    return faults or [*_unpaired(body["messages"]), *openai_images(body["messages"], "messages")]


def _options(body: dict[str, Any]) -> Iterator[str]:
    """Options that exclude or need one another."""
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        yield (
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        )
    if body.get("stream_options") is not None:
        if not body.get("stream"):
            yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield from OPENAI.faults(body["stream_options"], "stream_options", _STREAM_OPTIONS)
    if "response_format" in body:
        yield from OPENAI.tagged(body["response_format"], "response_format", _FORMATS)
    if isinstance(body.get("stop"), list) and len(body["stop"]) > 4:
        yield "Invalid 'stop': array too long. Expected an array with maximum length 4."


def _tools(body: dict[str, Any]) -> Iterator[str]:
    """Tools are nested function definitions with distinct names and object schemas; choosing among
    tools needs tools, and a named choice one of theirs."""
    names: list[object] = []
    for where, tool in OPENAI.items(body.get("tools", []), "tools"):
        faults = list(OPENAI.faults(tool, where, _TOOL))
        if not faults:
            function = tool["function"]
            faults = list(OPENAI.faults(function, f"{where}.function", _FUNCTION))
            names.append(function.get("name"))
            if not faults and "parameters" in function:
                strict = bool(function.get("strict"))
                faults = list(openai_schema(function["parameters"], function["name"], strict))
        yield from faults
    if len(names) > 128:
        yield "Invalid 'tools': array too long. Expected an array with maximum length 128."
    if len({str(name) for name in names}) < len(names):
        yield "Invalid 'tools': function names must be unique."
    for key in ("tool_choice", "parallel_tool_calls"):
        if key in body and "tools" not in body:
            yield f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified."
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        faults = list(OPENAI.tagged(choice, "tool_choice", _NAMED_CHOICE))
        yield from faults
        if not faults and choice["type"] == "function":
            name = choice["function"].get("name")
            if name not in names:
                yield f"Invalid value for 'tool_choice': tool '{name}' not found in 'tools'."


def _message(message: Any, where: str) -> Iterator[str]:
    """One message: a known role with that role's fields, and content parts that role may have."""
    faults = list(OPENAI.tagged(message, where, _MESSAGES, tag="role"))
    if faults:
        yield from faults
        return
    role, content = message["role"], message.get("content")
    if isinstance(content, list):
        for place, item in OPENAI.items(content, f"{where}.content"):
            yield from OPENAI.tagged(item, place, _CONTENT[role])
            if isinstance(item, dict) and isinstance(item.get("image_url"), dict):
                yield from OPENAI.faults(item["image_url"], f"{place}.image_url", _IMAGE)
    if role == "assistant":
        yield from _assistant(message, where)


def _assistant(message: dict[str, Any], where: str) -> Iterator[str]:
    """An assistant message says, refuses or calls something; its calls have distinct ids, a
    function's name and arguments in a string, whatever that string holds."""
    if not any(message.get(key) for key in ("content", "refusal", "audio", "tool_calls")):
        yield (
            f"Invalid value for '{where}.content': expected a non-empty string, as there are no "
            "tool_calls."
        )
    ids: set[str] = set()
    for place, call in OPENAI.items(message.get("tool_calls", []), f"{where}.tool_calls"):
        faults = list(OPENAI.faults(call, place, _CALL))
        if not faults:
            faults = list(OPENAI.faults(call["function"], f"{place}.function", _CALLED))
            if call["id"] in ids:
                faults.append(f"Invalid '{place}.id': duplicate tool call id '{call['id']}'.")
            ids.add(call["id"])
        yield from faults


def _unpaired(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Every tool call is answered, exactly once, by the tool messages right after its message, and
    no tool message answers anything else."""
    asked: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            answered = message["tool_call_id"]
            if answered in waiting:
                waiting.remove(answered)
            elif answered in asked:
                yield f"Invalid 'messages[{index}]': '{answered}' has been answered already."
            else:
                yield (
                    f"Invalid parameter: 'messages[{index}]' with role 'tool' must be a response "
                    f"to a preceding message with 'tool_calls'; nothing called '{answered}'."
                )
            continue
        if waiting:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(waiting)}"
            )
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        asked = set(waiting)


def parts(body: dict[str, Any]) -> list[Part]:
    """Tools, then each message's head and its content parts. Text is compared by paragraphs, as a
    model sees no difference between a string and parts."""
    found = [part(f"tools[{n}]", tool, _MARK) for n, tool in enumerate(body.get("tools") or [])]
    for where, message in OPENAI.items(body["messages"], "messages"):
        head = {key: value for key, value in message.items() if key != "content"}
        found.append(Part(where, head))
        content = message.get("content") or []
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for place, item in OPENAI.items(content, f"{where}.content"):
            if item.keys() == {"type", "text"}:
                found += [Part(place, paragraph) for paragraph in item["text"].split("\n\n")]
            else:
                found.append(part(place, item, _MARK))
    return found
