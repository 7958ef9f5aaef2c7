"""Anthropic Messages: what it refuses, and what its answers look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .anthropic_answer import render
from .checks import (
    ANTHROPIC,
    Shape,
    anything,
    array,
    base64_data,
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
from .images import anthropic_images
from .schemas import anthropic_schema
from .wire import digest, dumps, signs

__all__ = ["NAME", "PATH", "parts", "prefixes", "render", "validate"]

NAME = "anthropic_messages"
PATH = "/messages"

_MARK = "cache_control"
_MARK_SHAPE = Shape({"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h")})
_VERSION = matching(r"\d{4}-\d{2}-\d{2}")


def _mark(value: object) -> str:
    wrong = value is not None and list(ANTHROPIC.faults(value, _MARK, _MARK_SHAPE))
    return '{"type": "ephemeral"}, with a ttl of "5m" or "1h" or none' if wrong else ""


_BODY = Shape(
    required={"model": filled, "messages": filled_array, "max_tokens": integer(1)},
    optional={
        _MARK: _mark,
        "container": anything,
        "diagnostics": nullable(mapping),
        "inference_geo": nullable(string),
        "metadata": mapping,
        "output_config": mapping,
        "service_tier": one_of("auto", "standard_only"),
        "speed": nullable(one_of("standard", "fast")),
        "stop_sequences": strings,
        "stream": boolean,
        "system": either(string, array),
        "temperature": number(0, 1),
        "thinking": mapping,
        "tool_choice": mapping,
        "tools": array,
        "top_k": integer(0),
        "top_p": number(0, 1),
    },
)
_METADATA = Shape({}, {"user_id": nullable(string)})
_OUTPUT_CONFIG = Shape(
    {},
    {
        "effort": nullable(one_of("low", "medium", "high", "xhigh", "max")),
        "format": nullable(mapping),
    },
)
_DISPLAY = nullable(one_of("summarized", "omitted"))
_THINKING = {
    "enabled": Shape({"type": filled, "budget_tokens": integer(1024)}, {"display": _DISPLAY}),
    "adaptive": Shape({"type": filled}, {"display": _DISPLAY, "block_binding": mapping}),
    "between_tools": Shape({"type": filled}),
    "disabled": Shape({"type": filled}),
}
_ONE_CALL = {"disable_parallel_tool_use": boolean}
_TOOL_CHOICE = {
    "auto": Shape({"type": filled}, _ONE_CALL),
    "any": Shape({"type": filled}, _ONE_CALL),
    "tool": Shape({"type": filled, "name": filled}, _ONE_CALL),
    "none": Shape({"type": filled}),
}
_TOOL_NAME = matching("[a-zA-Z0-9_-]{1,128}")
_TOOL = Shape(
    {"name": _TOOL_NAME, "input_schema": mapping},
    {
        "description": string,
        _MARK: _mark,
        "type": nullable(one_of("custom")),
        "strict": boolean,
        "defer_loading": boolean,
        "eager_input_streaming": nullable(boolean),
        "input_examples": array,
        "allowed_callers": array,
    },
)

_MESSAGE = Shape({"role": one_of("user", "assistant"), "content": either(string, array)})
_CALL_ID = matching("[a-zA-Z0-9_-]+")
_TEXT = Shape({"type": filled, "text": string}, {_MARK: _mark, "citations": nullable(array)})
_IMAGE = Shape({"type": filled, "source": mapping}, {_MARK: _mark, "transformations": anything})
_DOCUMENT = Shape(
    {"type": filled, "source": mapping},
    {_MARK: _mark, "citations": anything, "context": nullable(string), "title": nullable(string)},
)
_SEARCH_RESULT = Shape(
    {"type": filled, "content": filled_array, "source": string, "title": string},
    {_MARK: _mark, "citations": mapping},
)
_READABLE = {"text": _TEXT, "image": _IMAGE, "document": _DOCUMENT, "search_result": _SEARCH_RESULT}
_BLOCKS = {
    "user": _READABLE
    | {
        "tool_result": Shape(
            {"type": filled, "tool_use_id": _CALL_ID},
            {
                "content": either(string, array),
                "is_error": boolean,
                _MARK: _mark,
                "toolset_name": nullable(string),
            },
        )
    },
    "assistant": {
        "text": _TEXT,
        "thinking": Shape({"type": filled, "thinking": string, "signature": string}),
        "redacted_thinking": Shape({"type": filled, "data": string}),
        "tool_use": Shape(
            {"type": filled, "id": _CALL_ID, "name": _TOOL_NAME, "input": mapping},
            {_MARK: _mark, "caller": mapping, "toolset_name": nullable(string)},
        ),
    },
}
_PDF_TYPE = one_of("application/pdf")
_IMAGE_TYPE = one_of("image/jpeg", "image/png", "image/gif", "image/webp")
_URL = Shape({"type": filled, "url": matching("https?://.+")})
_FILE = Shape({"type": filled, "file_id": filled})
_SOURCES = {
    "image": {
        "base64": Shape({"type": filled, "media_type": _IMAGE_TYPE, "data": base64_data}),
        "url": _URL,
        "file": _FILE,
    },
    "document": {
        "base64": Shape(
            {"type": filled, "media_type": one_of("application/pdf"), "data": base64_data}
        ),
        "text": Shape({"type": filled, "media_type": one_of("text/plain"), "data": string}),
        "content": Shape({"type": filled, "content": either(string, filled_array)}),
        "url": _URL,
        "file": _FILE,
    },
}


def validate(body: dict[str, Any], headers: Mapping[str, str], /) -> list[str]:
    """Everything the real endpoint would refuse this request for; empty when it would take it."""
    if _VERSION(headers.get("anthropic-version")):
        return ["anthropic-version: header is required"]
    faults = list(ANTHROPIC.faults(body, "", _BODY))
    if faults:
        return faults
    faults += _options(body)
    faults += _tools(body)
    if isinstance(body.get("system"), list):
        for where, block in ANTHROPIC.items(body["system"], "system"):
            faults += _block(block, where, {"text": _TEXT})
    last = len(body["messages"]) - 1
    for index, (where, message) in enumerate(ANTHROPIC.items(body["messages"], "messages")):
        faults += _message(message, where, index == last)
    if faults:
        return faults
    return [
        *_turns(body["messages"]),
        *_unpaired(body["messages"]),
        *_thinking_kept(body),
        *_marks(body),
        *anthropic_images(body["messages"]),
    ]


def _options(body: dict[str, Any]) -> Iterator[str]:
    """Nested options; thinking needs room under `max_tokens`, the default temperature, no top_k and
    no forced tool."""
    yield from ANTHROPIC.faults(body.get("metadata", {}), "metadata", _METADATA)
    yield from ANTHROPIC.faults(body.get("output_config", {}), "output_config", _OUTPUT_CONFIG)
    if any(not text.strip() for text in body.get("stop_sequences", ())):
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    if "thinking" not in body:
        return
    thinking = body["thinking"]
    yield from ANTHROPIC.tagged(thinking, "thinking", _THINKING)
    if thinking.get("type") not in ("enabled", "adaptive"):
        return
    budget = thinking.get("budget_tokens")
    if isinstance(budget, int) and body["max_tokens"] <= budget:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    if body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if "top_k" in body:
        yield "`top_k` must be unset when thinking is enabled."
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _tools(body: dict[str, Any]) -> Iterator[str]:
    """Tools have distinct names and object schemas; a choice needs tools, a named one its tool."""
    names: list[object] = []
    for where, tool in ANTHROPIC.items(body.get("tools", []), "tools"):
        faults = list(ANTHROPIC.faults(tool, where, _TOOL))
        if not faults:
            names.append(tool["name"])
            faults = list(anthropic_schema(tool["input_schema"], f"{where}.custom.input_schema"))
        yield from faults
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    if "tool_choice" not in body:
        return
    choice = body["tool_choice"]
    yield from ANTHROPIC.tagged(choice, "tool_choice", _TOOL_CHOICE)
    if not names:
        yield "tool_choice: tool_choice may only be specified while providing tools"
    elif choice.get("type") == "tool" and choice.get("name") not in names:
        yield f"tool_choice: Tool '{choice.get('name')}' not found in provided tools"


def _message(message: Any, where: str, is_last: bool) -> Iterator[str]:
    """A message has a user's or assistant's non-empty content, of blocks its role may have; only a
    last assistant message may be empty. An assistant message ends in no thinking and, as a start
    for the model to go on from, in no whitespace."""
    faults = list(ANTHROPIC.faults(message, where, _MESSAGE))
    if faults:
        yield from faults
        return
    role, content = message["role"], message["content"]
    if not content and not (is_last and role == "assistant"):
        yield (
            f"{where}: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    for place, block in ANTHROPIC.items(content, f"{where}.content"):
        faults += _block(block, place, _BLOCKS[role])
    yield from faults
    if faults or role == "user" or not content:
        return
    final = content[-1]
    if final["type"] in ("thinking", "redacted_thinking"):
        yield f"{where}: The final block in an assistant message cannot be `{final['type']}`."
    if is_last and final["type"] == "text" and final["text"] != final["text"].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _block(block: Any, where: str, shapes: Mapping[str, Shape]) -> Iterator[str]:
    """A content block of a type that may stand here; text says something, sources are whole, a
    thinking block's signature is the one given with that very text."""
    faults = list(ANTHROPIC.tagged(block, where, shapes))
    yield from faults
    if faults:
        return
    kind = block["type"]
    if kind == "text":
        if not block["text"]:
            yield f"{where}: text content blocks must be non-empty"
        elif not block["text"].strip():
            yield f"{where}: text content blocks must contain non-whitespace text"
    elif kind in _SOURCES:
        yield from ANTHROPIC.tagged(block["source"], f"{where}.source", _SOURCES[kind])
    elif kind == "thinking":
        if not signs(block["signature"], block["thinking"]):
            yield f"{where}: Invalid `signature` in `thinking` block"
    elif kind == "redacted_thinking":
        yield f"{where}: Invalid `data` in `redacted_thinking` block"
    elif kind == "tool_result":
        yield from _result(block, where)


def _result(block: dict[str, Any], where: str) -> Iterator[str]:
    """A tool result holds what a user may show; an error says something, in text only."""
    content = block.get("content", "")
    if block.get("is_error") and not content:
        yield f"{where}.tool_result: content cannot be empty if `is_error` is true"
    if isinstance(content, list):
        for place, inner in ANTHROPIC.items(content, f"{where}.tool_result.content"):
            faults = list(_block(inner, place, _READABLE))
            yield from faults
            if not faults and block.get("is_error") and inner["type"] != "text":
                yield f'{where}.tool_result: all content must be type "text" if `is_error` is true'


def _turns(messages: list[dict[str, Any]]) -> Iterator[str]:
    """The user begins and the roles alternate. (The real endpoint merges two messages of one role
    in a row; a client that sends such has lost track of its turns, so they are refused here.)"""
    if messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    for index in range(1, len(messages)):
        if messages[index]["role"] == messages[index - 1]["role"]:
            role = messages[index]["role"]
            yield f'messages.{index}: roles must alternate, but found multiple "{role}" in a row'


def _unpaired(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Tool uses have ids of their own; the next message starts with one result for each, and no
    other message has results."""
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate([*messages, {"role": "user", "content": []}]):
        blocks = _blocks(message)
        results = [n for n, block in enumerate(blocks) if block["type"] == "tool_result"]
        asked = set(waiting)
        for n in results:
            answered = blocks[n]["tool_use_id"]
            if answered in waiting:
                waiting.remove(answered)
            elif answered in asked:
                yield (
                    f"messages.{index}.content.{n}: each tool_use must have a single result. Found "
                    f"multiple `tool_result` blocks with id: {answered}"
                )
            else:
                yield (
                    f"messages.{index}.content.{n}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {answered}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message."
                )
        if waiting or results != list(range(len(results))):
            late = waiting or [blocks[n]["tool_use_id"] for n in results]
            yield (
                f"messages.{max(index - 1, 0)}: `tool_use` ids were found without `tool_result` "
                f"blocks immediately after: {', '.join(late)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for n, name in enumerate(waiting):
            if name in seen or name in waiting[:n]:
                yield f"messages.{index}: `tool_use` ids must be unique: {name}"
        seen.update(waiting)


def _thinking_kept(body: dict[str, Any]) -> Iterator[str]:
    """With thinking enabled, the assistant message whose tools have just run still begins with the
    thinking that led to them."""
    messages = body["messages"]
    final = messages[-1]
    if body.get("thinking", {}).get("type") != "enabled":
        return
    if final["role"] == "user":
        blocks = _blocks(final)
        if len(messages) < 2 or not blocks or blocks[0]["type"] != "tool_result":
            return
        final = messages[-2]
    first = _blocks(final)[0]["type"] if final["content"] else "nothing"
    if first not in ("thinking", "redacted_thinking"):
        yield (
            f"messages.{messages.index(final)}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final "
            "`assistant` message must start with a thinking block."
        )


def _marks(body: dict[str, Any]) -> Iterator[str]:
    """At most four cache marks; none for an hour after one for five minutes."""
    marks = [found for block in _all_blocks(body) if (found := block.get(_MARK))]
    count = len(marks) + bool(body.get(_MARK))
    if count > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {count}."
    ttls = [found.get("ttl", "5m") for found in marks]
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        yield (
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def _all_blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("tools", ())
    yield from _blocks({"content": body.get("system", [])})
    for message in body["messages"]:
        for block in _blocks(message):
            if block["type"] == "tool_result":
                yield from _blocks(block)
            yield block


def _blocks(holder: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Content as blocks; a string is short for one text block."""
    content = holder.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def parts(body: dict[str, Any]) -> list[Part]:
    """Tools, system blocks, then each message's role and its blocks."""
    found = [part(f"tools.{n}", tool, _MARK) for n, tool in enumerate(body.get("tools", ()))]
    system = _blocks({"content": body.get("system")})
    found += [part(where, block, _MARK) for where, block in ANTHROPIC.items(system, "system")]
    for where, message in ANTHROPIC.items(body["messages"], "messages"):
        found.append(Part(f"{where}.role", message["role"]))
        found += [
            part(place, block, _MARK)
            for place, block in ANTHROPIC.items(_blocks(message), f"{where}.content")
        ]
    if body.get(_MARK):  # one mark for the whole request goes on its last block
        found[-1] = found[-1]._replace(marked=True)
    return found


def prefixes(body: dict[str, Any]) -> list[str]:
    """A digest of what comes before each message, and last of the whole conversation: tools, system
    and all earlier blocks, cache marks aside."""
    found: list[str] = []
    before, seen = "", ""
    for item in parts(body):
        message = ".".join(item.where.split(".")[:2]) if item.where.startswith("messages") else ""
        if message != seen:
            found.append(before)
            seen = message
        before = digest(before, dumps(item.value).decode())
    return [*found, before]
