"""OpenAI Responses: what it refuses, and what its answers look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .checks import (
    OPENAI,
    Check,
    Shape,
    array,
    boolean,
    either,
    filled,
    filled_array,
    integer,
    mapping,
    matching,
    null,
    nullable,
    number,
    one_of,
    string,
)
from .conversation import Part, part
from .images import openai_images
from .responses_answer import render
from .schemas import openai_schema
from .wire import unseal

__all__ = ["NAME", "PATH", "parts", "render", "validate"]

NAME = "responses"
PATH = "/responses"

_NAME = matching("[a-zA-Z0-9_-]{1,64}")
_CALL_ID = matching("(?s).{1,64}")
_INCLUDES = {
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
}


def _include(value: object) -> str:
    right = isinstance(value, list) and all(str(item) in _INCLUDES for item in value)
    return "" if right else f"an array of {', '.join(sorted(_INCLUDES))}"


def _item_id(prefix: str) -> Check:
    """Items are named after their type, in at most 64 characters."""
    expected = f"an ID that begins with '{prefix}', of at most 64 characters"

    def check(value: object) -> str:
        right = isinstance(value, str) and value.startswith(prefix) and len(value) <= 64
        return "" if right else expected

    return check


_BODY = Shape(
    required={"model": filled, "input": either(filled, filled_array)},
    optional={
        "include": nullable(_include),
        "instructions": nullable(string),
        "max_output_tokens": nullable(integer(16)),
        "max_tool_calls": nullable(integer(1)),
        "metadata": nullable(mapping),
        "parallel_tool_calls": nullable(boolean),
        "prompt_cache_key": nullable(string),
        "prompt_cache_options": mapping,
        "prompt_cache_retention": nullable(one_of("in_memory", "24h")),
        "reasoning": nullable(mapping),
        "safety_identifier": nullable(string),
        "service_tier": nullable(one_of("auto", "default", "flex", "scale", "priority", "fast")),
        "store": nullable(boolean),
        "stream": nullable(boolean),
        "stream_options": nullable(mapping),
        "temperature": nullable(number(0, 2)),
        "text": mapping,
        "tool_choice": either(one_of("none", "auto", "required"), mapping),
        "tools": array,
        "top_logprobs": nullable(integer(0, 20)),
        "top_p": nullable(number(0, 1)),
        "truncation": nullable(one_of("auto", "disabled")),
        "user": string,
        # These point at what the provider has stored. Nothing is stored here, so only the value
        # that points at nothing is taken.
        "background": either(null, one_of(False)),
        "conversation": null,
        "previous_response_id": null,
        "prompt": null,
    },
)
_EFFORT = one_of("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARY = one_of("auto", "concise", "detailed")
_REASONING = Shape(
    {},
    {
        "effort": nullable(_EFFORT),
        "summary": nullable(_SUMMARY),
        "generate_summary": nullable(_SUMMARY),
        "context": nullable(one_of("auto", "current_turn", "all_turns")),
        "mode": string,
    },
)
_STREAM_OPTIONS = Shape({}, {"include_obfuscation": boolean, "prewarm": boolean})
_TEXT_OPTIONS = Shape({}, {"format": mapping, "verbosity": nullable(string)})
_FORMATS = {
    "text": Shape({"type": filled}),
    "json_object": Shape({"type": filled}),
    "json_schema": Shape(
        {"type": filled, "name": _NAME, "schema": mapping},
        {"description": string, "strict": nullable(boolean)},
    ),
}
_TOOL = Shape(
    {"type": one_of("function"), "name": _NAME, "parameters": nullable(mapping)},
    {
        "description": nullable(string),
        "strict": nullable(boolean),
        "defer_loading": boolean,
        "allowed_callers": nullable(array),
        "output_schema": nullable(mapping),
    },
)
_NAMED_CHOICE = {
    "function": Shape({"type": filled, "name": _NAME}),
    "allowed_tools": Shape({"type": filled, "mode": filled, "tools": array}),
}

_STATUS = one_of("in_progress", "completed", "incomplete")
_CONTENT = either(string, filled_array)
_INPUT_MESSAGE = Shape({"role": filled, "content": _CONTENT}, {"type": filled, "status": _STATUS})
_MESSAGES = {
    "user": _INPUT_MESSAGE,
    "system": _INPUT_MESSAGE,
    "developer": _INPUT_MESSAGE,
    "assistant": Shape(
        {"role": filled, "content": _CONTENT},
        {
            "type": filled,
            "status": _STATUS,
            "id": _item_id("msg"),
            "phase": nullable(one_of("commentary", "final_answer")),
        },
    ),
}
_ITEMS = {
    "function_call": Shape(
        {"type": filled, "call_id": _CALL_ID, "name": _NAME, "arguments": string},
        {"id": _item_id("fc"), "status": _STATUS, "caller": nullable(mapping)},
    ),
    "function_call_output": Shape(
        {"type": filled, "call_id": _CALL_ID, "output": either(string, filled_array)},
        {"id": nullable(_item_id("fc")), "status": nullable(_STATUS), "caller": nullable(mapping)},
    ),
    "reasoning": Shape(
        {"type": filled, "id": _item_id("rs"), "summary": array},
        {"encrypted_content": nullable(string), "content": array, "status": _STATUS},
    ),
}
_MARK = "prompt_cache_breakpoint"
_IMAGE_URL = matching(r"https?://.+|data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*")
_INPUT_PARTS = {
    "input_text": Shape({"type": filled, "text": string}, {_MARK: mapping}),
    "input_image": Shape(
        {"type": filled},
        {
            "detail": one_of("auto", "low", "high", "original"),
            "image_url": nullable(_IMAGE_URL),
            "file_id": nullable(string),
            _MARK: mapping,
        },
    ),
    "input_file": Shape(
        {"type": filled},
        {
            "detail": string,
            "file_data": string,
            "file_id": nullable(string),
            "file_url": string,
            "filename": string,
            _MARK: mapping,
        },
    ),
}
_OUTPUT_PARTS = {
    "output_text": Shape(
        {"type": filled, "text": string}, {"annotations": array, "logprobs": nullable(array)}
    ),
    "refusal": Shape({"type": filled, "refusal": string}),
}
_SUMMARY_PARTS = {"summary_text": Shape({"type": filled, "text": string})}
_REASONING_PARTS = {"reasoning_text": Shape({"type": filled, "text": string})}


def validate(body: dict[str, Any], _headers: Mapping[str, str], /) -> list[str]:
    """Everything the real endpoint would refuse this body for; empty when it would take it."""
    faults = list(OPENAI.faults(body, "", _BODY))
    if faults:
        return faults
    faults += _options(body)
    faults += _tools(body)
    if isinstance(body["input"], str):
        return faults
    for where, item in OPENAI.items(body["input"], "input"):
        faults += _item(item, where)
    if faults:
        return faults
    return [*_unpaired(body["input"]), *_reasoning(body), *openai_images(body["input"], "input")]


def _options(body: dict[str, Any]) -> Iterator[str]:
    """Nested options, of which `stream_options` needs `stream`."""
    if body.get("stream_options") is not None:
        if not body.get("stream"):
            yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield from OPENAI.faults(body["stream_options"], "stream_options", _STREAM_OPTIONS)
    if body.get("reasoning") is not None:
        yield from OPENAI.faults(body["reasoning"], "reasoning", _REASONING)
    if "text" in body:
        yield from OPENAI.faults(body["text"], "text", _TEXT_OPTIONS)
        if "format" in body["text"]:
            yield from OPENAI.tagged(body["text"]["format"], "text.format", _FORMATS)


def _tools(body: dict[str, Any]) -> Iterator[str]:
    """Tools are flat, unlike Chat Completions' nested ones, with distinct names and object
    schemas; a forced or named choice needs its tools."""
    names: list[object] = []
    for where, tool in OPENAI.items(body.get("tools", []), "tools"):
        faults = list(OPENAI.faults(tool, where, _TOOL))
        if not faults:
            names.append(tool["name"])
            if tool["parameters"] is not None:
                strict = bool(tool.get("strict"))
                faults = list(openai_schema(tool["parameters"], tool["name"], strict))
        yield from faults
    if len(set(names)) < len(names):
        yield "Invalid 'tools': function names must be unique."
    choice = body.get("tool_choice")
    if choice == "required" and not names:
        yield "Tool choice 'required' must be specified with 'tools' parameter."
    if isinstance(choice, dict):
        yield from OPENAI.tagged(choice, "tool_choice", _NAMED_CHOICE)
        if choice.get("type") == "function" and choice.get("name") not in names:
            yield f"Tool choice 'function' not found in 'tools' parameter: '{choice.get('name')}'."


def _item(item: Any, where: str) -> Iterator[str]:
    """One input item: of a known type (a message may leave it out) with that type's fields, ids
    with that type's prefix, and the content parts its role may have: `input_*` for what the model
    reads, `output_text` and `refusal` for what it wrote."""
    if isinstance(item, dict) and item.get("type", "message") == "message":
        faults = list(OPENAI.tagged(item, where, _MESSAGES, tag="role"))
        known = _OUTPUT_PARTS if item.get("role") == "assistant" else _INPUT_PARTS
        parts_at = {"content": known}
    else:
        faults = list(OPENAI.tagged(item, where, _ITEMS))
        parts_at = {"output": _INPUT_PARTS, "summary": _SUMMARY_PARTS, "content": _REASONING_PARTS}
    yield from faults
    if faults:
        return
    for key, shapes in parts_at.items():
        if isinstance(item.get(key), list):
            for place, value in OPENAI.items(item[key], f"{where}.{key}"):
                yield from OPENAI.tagged(value, place, shapes)


def _unpaired(items: list[dict[str, Any]]) -> Iterator[str]:
    """Every function call has one output somewhere after it, every output one call before it, and
    no item comes twice."""
    called: set[str] = set()
    waiting: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item.get("id") is not None:
            if item["id"] in seen:
                yield f"Duplicate item found with id {item['id']}. Remove duplicate items."
            seen.add(item["id"])
        call = item.get("call_id", "")
        if item.get("type") == "function_call":
            if call in called:
                yield f"Invalid 'input[{index}].call_id': duplicate function call '{call}'."
            called.add(call)
            waiting.append(call)
        elif item.get("type") == "function_call_output":
            if call in waiting:
                waiting.remove(call)
            elif call in called:
                yield f"Invalid 'input[{index}]': function call {call} has an output already."
            else:
                yield f"No tool call found for function call output with call_id {call}."
    for call in waiting:
        yield f"No tool output found for function call {call}."


def _reasoning(body: dict[str, Any]) -> Iterator[str]:
    """A reasoning item comes with its encrypted content when nothing is stored, that content is
    unaltered and its own, and the item it led to comes right after it."""
    items = body["input"]
    for index, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        follower = items[index + 1] if index + 1 < len(items) else {}
        kind = follower.get("type", "message" if follower else "")
        led_on = kind in ("function_call", "reasoning") or follower.get("role") == "assistant"
        content = item.get("encrypted_content")
        if content is None:
            if body.get("store") is False:
                yield (
                    f"Item with id '{item['id']}' not found. Items are not persisted when `store` "
                    "is set to false. Try again with `store` set to true, or remove this item "
                    "from your input."
                )
        else:
            sealed = unseal(content)
            if not sealed or sealed[0] != item["id"]:
                reason = "could not be parsed" if not sealed else "item_id did not match"
                yield (
                    f"The encrypted content for item {item['id']} could not be verified. "
                    f"Reason: Encrypted content {reason}."
                )
            elif kind != "reasoning":
                names = {follower.get("id"), follower.get("call_id")} - {None}
                led_on = led_on and (not names or bool(names & set(sealed[2:])))
        if not led_on:
            yield (
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item."
            )


def parts(body: dict[str, Any]) -> list[Part]:
    """Tools, instructions, then each item; a message is its head and its content parts."""
    found = [part(f"tools[{n}]", tool, _MARK) for n, tool in enumerate(body.get("tools") or [])]
    if body.get("instructions"):
        found.append(Part("instructions", body["instructions"]))
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    for where, item in OPENAI.items(items, "input"):
        if item.get("type", "message") != "message":
            found.append(Part(where, item))
            continue
        head = {key: value for key, value in item.items() if key not in ("content", "type")}
        found.append(Part(where, head))
        content = item["content"]
        if isinstance(content, str):
            kind = "output_text" if item["role"] == "assistant" else "input_text"
            content = [{"type": kind, "text": content}]
        found += [
            part(place, value, _MARK) for place, value in OPENAI.items(content, f"{where}.content")
        ]
    return found
