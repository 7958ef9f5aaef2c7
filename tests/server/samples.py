"""Sample requests: for each protocol one with everything in it that must be taken, and many, each
with one thing wrong, that must be refused. The server is tested with them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from .script import Call, Reply
from .wire import seal, signature

Body = dict[str, Any]
DROP = object()
"""In place of a value: the field is left out."""

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A whole image of one pixel."""
CUT_PNG = PNG[:64]
WEB_PAGE = "PGh0bWw+PC9odG1sPgAA"
SCHEMA: Body = {"type": "object", "properties": {"command": {"type": "string"}}}
LONE_CALL = {"id": "call_9", "type": "function", "function": {"name": "bash", "arguments": "{}"}}

CHAT: Body = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": f"call_{n}", "type": "function", "function": function}
                for n, function in enumerate(
                    [{"name": "bash", "arguments": "{}"}, {"name": "read", "arguments": "{broken"}]
                )
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
        {"role": "tool", "tool_call_id": "call_0", "content": [{"type": "text", "text": "ok"}]},
        {"role": "user", "content": "Go on."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "bash", "description": "Runs.", "parameters": SCHEMA},
        }
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "max_completion_tokens": 100,
    "stream": True,
    "stream_options": {"include_usage": True},
}
_SEALED = seal(["rs_1", "", "fc_1", "call_1"])
RESPONSES: Body = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": _SEALED},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "bash",
            "arguments": "{broken",
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
        },
        {"role": "user", "content": "Go on."},
    ],
    "tools": [{"type": "function", "name": "bash", "description": "Runs.", "parameters": SCHEMA}],
    "tool_choice": "auto",
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
}
_CACHE = {"cache_control": {"type": "ephemeral"}}
MESSAGES: Body = {
    "model": "m",
    "max_tokens": 4096,
    "system": [{"type": "text", "text": "Be brief.", **_CACHE}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": signature("Hm.")},
                {"type": "text", "text": "Both."},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}},
                {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": ""},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "no such file"}],
                },
                {"type": "text", "text": "Go on.", **_CACHE},
            ],
        },
    ],
    "tools": [{"name": "bash", "description": "Runs.", "input_schema": SCHEMA}],
    "tool_choice": {"type": "auto"},
    "thinking": {"type": "enabled", "budget_tokens": 2048},
    "stream": True,
}
TAKEN = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES, "/v1/messages": MESSAGES}
PATHS = list(TAKEN)

CALLS = [Call("bash", {"command": "ls -la /tmp"}), Call("read", {"path": "café.py"})]
FULL = Reply("Two things to look at: ☂.", calls=CALLS, reasoning="First the list, then the file.")
"""A reply with everything in it."""


class Malformed(NamedTuple):
    """A request that must be refused."""

    name: str
    path: str
    body: Body
    says: str
    """Stands in the error's message."""


def changed(body: Body, place: str, value: object) -> Body:
    """A copy of `body` with another value at a place such as `messages.2.content`; the last step
    may be `+`, which adds to an array."""
    body = copy.deepcopy(body)
    holder: Any = body
    *steps, last = place.split(".")
    for step in steps:
        holder = holder[int(step) if isinstance(holder, list) else step]
    if last == "+":
        holder.append(value)
    elif value is DROP:
        del holder[int(last) if isinstance(holder, list) else last]
    else:
        holder[int(last) if isinstance(holder, list) else last] = value
    return body


_ODD: tuple[object, ...] = (
    *(None, 5, True, "x", "", [], {}, [1], ["x"], [{}], [None], {"type": 5}, {"type": ["x"]}),
    *({"type": "text"}, {"type": "function", "function": "x"}, {"surprise": 1}, DROP),
)


def oddities(body: Body) -> Iterator[Body]:
    """Copies of `body` with something odd in each place in turn."""
    for place in _places(body):
        for odd in _ODD:
            yield changed(body, place, odd)


def _places(value: object, above: str = "") -> Iterator[str]:
    inner: list[tuple[object, object]] = []
    if isinstance(value, dict | list):
        inner += value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield f"{above}{key}"
        yield from _places(item, f"{above}{key}.")


def malformed() -> Iterator[Malformed]:
    """Every sample that must be refused."""
    for path, changes in (
        ("/v1/chat/completions", _CHAT),
        ("/v1/responses", _RESPONSES),
        ("/v1/messages", _MESSAGES),
    ):
        for place, value, says in changes:
            shown = "without" if value is DROP else repr(value)
            name = f"{path.rsplit('/', 1)[-1]} {place} {shown}"[:90]
            yield Malformed(name, path, changed(TAKEN[path], place, value), says)


_BIG = {"type": "function", "function": {"name": "bash"}}
_CHAT: list[tuple[str, object, str]] = [
    ("model", DROP, "Missing required parameter: 'model'"),
    ("messages", DROP, "Missing required parameter: 'messages'"),
    ("messages", [], "at least one item"),
    ("stream", "yes", "a boolean"),
    ("temperature", 3, "a number"),
    ("temperature", True, "a number"),
    ("thinking", {"type": "enabled"}, "Unknown parameter: 'thinking'"),
    ("max_tokens", 100, "'max_tokens' and 'max_completion_tokens'"),
    ("max_completion_tokens", 0, "an integer >= 1"),
    ("stream", False, "only allowed when 'stream' is enabled"),
    ("stream_options.usage", True, "Unknown parameter: 'stream_options.usage'"),
    ("response_format", {"type": "xml"}, "'response_format.type'"),
    ("stop", ["a", "b", "c", "d", "e"], "maximum length 4"),
    ("reasoning_effort", "huge", "'reasoning_effort'"),
    ("messages.0.role", "tutor", "'messages[0].role'"),
    ("messages.0.role", DROP, "Missing required parameter: 'messages[0].role'"),
    ("messages.0", "hi", "expected an object"),
    ("messages.0.content", None, "'messages[0].content'"),
    ("messages.0.content", [], "'messages[0].content'"),
    ("messages.0.content", [{"type": "image_url", "image_url": {"url": "http://x"}}], "type"),
    ("messages.0.cache_control", {"type": "ephemeral"}, "Unknown parameter"),
    ("messages.1.content.0.type", "input_text", "'messages[1].content[0].type'"),
    ("messages.1.content.0.text", None, "a string"),
    ("messages.1.content.0.cache_control", {}, "Unknown parameter"),
    ("messages.1.content.1.image_url.url", "file:///x.png", "image_url.url"),
    ("messages.1.content.1.image_url.url", f"data:image/png;base64,{CUT_PNG}", "a valid image"),
    ("messages.1.content.1.image_url.url", f"data:image/png;base64,{WEB_PAGE}", "unsupported"),
    ("messages.1.content.1.image_url.url", f"data:image/jpeg;base64,{PNG}", "unsupported"),
    ("messages.2.tool_calls", [], "at least one item"),
    ("messages.2.tool_calls", DROP, "expected a non-empty string"),
    ("messages.2.tool_calls.0.id", DROP, "'messages[2].tool_calls[0].id'"),
    ("messages.2.tool_calls.0.id", "call_1", "duplicate tool call id"),
    ("messages.2.tool_calls.0.id", "c" * 41, "'messages[2].tool_calls[0].id'"),
    ("messages.2.tool_calls.0.index", 0, "Unknown parameter"),
    ("messages.2.tool_calls.0.function.arguments", {}, "a string"),
    ("messages.2.tool_calls.0.function.name", "a.b", "pattern"),
    ("messages.2.tool_calls.0.function.name", "a" * 65, "pattern"),
    ("messages.2.tool_calls.+", LONE_CALL, "did not have response messages: call_9"),
    ("messages.3", DROP, "did not have response messages: call_1"),
    ("messages.3", {"role": "user", "content": "x"}, "did not have response messages"),
    ("messages.3.tool_call_id", "call_0", "has been answered already"),
    ("messages.3.tool_call_id", "call_8", "nothing called 'call_8'"),
    ("messages.3.tool_call_id", DROP, "Missing required parameter"),
    ("messages.3.name", "bash", "Unknown parameter"),
    ("messages.2", {"role": "assistant", "content": ""}, "expected a non-empty string"),
    ("messages.+", {"role": "tool", "tool_call_id": "call_0", "content": ""}, "preceding"),
    ("messages.+", {"role": "assistant", "tool_calls": [LONE_CALL]}, "call_9"),
    ("tools", [], "at least one item"),
    ("tools", DROP, "only allowed when 'tools' are specified"),
    ("tools.0", {"type": "function", "name": "bash", "parameters": SCHEMA}, "function"),
    ("tools.0.function.name", "run bash", "pattern"),
    ("tools.0.function.parameters", {"type": "string"}, "JSON Schema of 'type: \"object\"'"),
    ("tools.0.function.parameters", {"type": "object"}, "object schema missing properties"),
    ("tools.0.function.parameters.anyOf", [{}], "at the top level"),
    ("tools.0.function.parameters.properties.command", {"type": "array"}, "missing items"),
    ("tools.0.function.parameters.properties.command.type", "text", "unknown type"),
    ("tools.0.function.parameters.required", "command", "an array of strings"),
    ("n", True, "'n'"),
    ("tools.0.function.strict", True, "'additionalProperties' is required"),
    ("tools.+", _BIG, "must be unique"),
    ("tool_choice", "any", "'tool_choice'"),
    ("tool_choice", {"type": "function", "function": {"name": "x"}}, "not found in 'tools'"),
]
_RESPONSES: list[tuple[str, object, str]] = [
    ("model", DROP, "Missing required parameter: 'model'"),
    ("input", DROP, "Missing required parameter: 'input'"),
    ("messages", [], "Unknown parameter: 'messages'"),
    ("max_tokens", 100, "Unknown parameter: 'max_tokens'"),
    ("max_output_tokens", 4, "an integer >= 16"),
    ("previous_response_id", "resp_1", "'previous_response_id'"),
    ("include", ["reasoning"], "'include'"),
    ("stream_options", {"include_usage": True}, "'stream_options.include_usage'"),
    ("reasoning.budget", 1, "Unknown parameter: 'reasoning.budget'"),
    ("text", {"format": {"type": "json_schema"}}, "'text.format.name'"),
    ("tools.0", {"type": "function", "function": {"name": "bash"}}, "'tools[0].function'"),
    ("tools.0.parameters", DROP, "Missing required parameter: 'tools[0].parameters'"),
    ("tools.0.parameters", {"type": "array"}, "JSON Schema"),
    ("tools.0.name", "a b", "pattern"),
    ("tool_choice", {"type": "function", "name": "x"}, "not found in 'tools'"),
    ("input.0.role", "tool", "'input[0].role'"),
    ("input.0.name", "me", "Unknown parameter: 'input[0].name'"),
    ("input.0.content.0.type", "text", "'input[0].content[0].type'"),
    ("input.0.content.0.type", "output_text", "'input[0].content[0].type'"),
    ("input.0.content.1.image_url", {"url": "http://x"}, "image_url"),
    ("input.0.content.1.image_url", f"data:image/png;base64,{CUT_PNG}", "a valid image"),
    ("input.0.content.1.image_url", f"data:image/png;base64,{WEB_PAGE}", "unsupported"),
    ("input.0.content", None, "'input[0].content'"),
    ("input.0.type", "tool_use", "'input[0].type'"),
    ("input.1.id", "x_1", "begins with 'rs'"),
    ("input.1.summary", DROP, "Missing required parameter: 'input[1].summary'"),
    ("input.1.status", None, "'input[1].status'"),
    ("input.1.encrypted_content", DROP, "Items are not persisted when `store` is set to false"),
    ("input.1.encrypted_content", "x" + _SEALED[1:], "could not be verified"),
    ("input.1.encrypted_content", seal(["rs_2", "", "fc_1"]), "item_id did not match"),
    ("input.1.encrypted_content", seal(["rs_1", "", "fc_2"]), "required following item"),
    ("input.2.arguments", {}, "a string"),
    ("input.2.call_id", DROP, "Missing required parameter: 'input[2].call_id'"),
    ("input.2.id", "call_1", "begins with 'fc'"),
    ("input.2.name", "a.b", "pattern"),
    ("input.2.input", {}, "Unknown parameter"),
    ("input.2", {"role": "user", "content": "x"}, "No tool call found"),
    ("input.3", DROP, "No tool output found for function call call_1"),
    ("input.3.call_id", "call_2", "No tool call found for function call output"),
    ("input.3.output", DROP, "Missing required parameter"),
    ("input.3.output", [{"type": "text", "text": "x"}], "'input[3].output[0].type'"),
    ("input.4.id", "1", "begins with 'msg'"),
    ("input.4.content.0.type", "input_text", "'input[4].content[0].type'"),
    ("input.+", {"type": "function_call_output", "call_id": "call_1", "output": ""}, "already"),
    ("input.+", {"type": "reasoning", "id": "rs_1", "summary": []}, "Duplicate item"),
]
_THINKING = {"type": "thinking", "thinking": "Hm.", "signature": signature("Hm.")}
_LONE_USE = {"type": "tool_use", "id": "toolu_3", "name": "bash", "input": {}}
_MESSAGES: list[tuple[str, object, str]] = [
    ("model", DROP, "model: Field required"),
    ("max_tokens", DROP, "max_tokens: Field required"),
    ("max_tokens", 2048, "greater than `thinking.budget_tokens`"),
    ("messages", [], "messages: Input should be"),
    ("max_completion_tokens", 1, "max_completion_tokens: Extra inputs are not permitted"),
    ("stream_options", {}, "stream_options: Extra inputs are not permitted"),
    ("temperature", 0.5, "`temperature` may only be set to 1"),
    ("temperature", 2, "temperature: Input should be"),
    ("top_k", 5, "`top_k` must be unset"),
    ("thinking.budget_tokens", 100, "thinking.budget_tokens"),
    ("thinking.budget_tokens", DROP, "thinking.budget_tokens: Field required"),
    ("thinking.type", "on", "thinking.type"),
    ("metadata", {"session": "x"}, "metadata.session: Extra inputs"),
    ("system", {"type": "text", "text": "x"}, "system: Input should be"),
    ("system.0.text", "", "text content blocks must be non-empty"),
    ("system.0.type", "image", "system.0.type"),
    ("system.0.cache_control", {"type": "forever"}, "system.0.cache_control"),
    ("system.0.cache_control.scope", "all", "system.0.cache_control"),
    ("messages.0.role", "system", "messages.0.role"),
    ("messages.0.role", "assistant", "messages.0.content.1.type"),
    ("messages.0", DROP, "first message must use the user role"),
    ("messages.0.name", "me", "messages.0.name: Extra inputs"),
    ("messages.0.content", "", "non-empty content"),
    ("messages.0.content", [], "non-empty content"),
    ("messages.0.content", "  ", "non-whitespace text"),
    ("messages.0.content.0.text", "", "non-empty"),
    ("messages.0.content.0.text", " \n", "non-whitespace text"),
    ("messages.0.content.0.type", "input_text", "messages.0.content.0.type"),
    ("messages.0.content.1.source.media_type", "image/bmp", "media_type"),
    ("messages.0.content.1.source.data", "data:image/png;base64,AA==", "source.data"),
    ("messages.0.content.1.source.data", CUT_PNG, "Could not process image"),
    ("messages.0.content.1.source.data", WEB_PAGE, "Could not process image"),
    ("messages.0.content.1.source.data", CUT_PNG + "AAAA" * 1_400_000, "exceeds 5 MB maximum"),
    ("messages.0.content.1.source.media_type", "image/jpeg", "not match the provided media type"),
    ("messages.1", DROP, "unexpected `tool_use_id`"),
    ("messages.1.role", "user", "messages.1.content.0.type"),
    ("messages.1.content.0.signature", DROP, "signature: Field required"),
    ("messages.1.content.0.signature", signature("Ha."), "Invalid `signature`"),
    ("messages.1.content.0.thinking", "Ha.", "Invalid `signature`"),
    ("messages.1.content.0.cache_control", None, "Extra inputs are not permitted"),
    ("messages.1.content.0", DROP, "must start with a thinking block"),
    ("messages.1.content.0", {"type": "redacted_thinking", "data": "x"}, "Invalid `data`"),
    ("messages.1.content.+", _THINKING, "final block in an assistant message"),
    ("messages.1.content.+", _LONE_USE, "without `tool_result` blocks immediately after: toolu_3"),
    ("messages.1.content.2.id", "toolu_2", "`tool_use` ids must be unique"),
    ("messages.1.content.2.id", "toolu 1", "messages.1.content.2.id"),
    ("messages.1.content.2.name", "a.b", "messages.1.content.2.name"),
    ("messages.1.content.2.input", "{}", "messages.1.content.2.input"),
    ("messages.1.content.2.arguments", "{}", "Extra inputs"),
    ("messages.2", DROP, "without `tool_result` blocks immediately after"),
    ("messages.2.content", "Go on.", "without `tool_result` blocks immediately after"),
    ("messages.2.content.0", {"type": "text", "text": "First."}, "immediately after: toolu_2"),
    ("messages.2.content.0.tool_use_id", "toolu_9", "unexpected `tool_use_id`"),
    ("messages.2.content.0.tool_use_id", "toolu_1", "must have a single result"),
    ("messages.2.content.1.content", "", "cannot be empty if `is_error` is true"),
    ("messages.2.content.1.content.0.text", "", "non-empty"),
    ("messages.2.content.1.output", "x", "Extra inputs"),
    ("messages.+", {"role": "user", "content": "More."}, 'multiple "user" in a row'),
    ("messages.+", {"role": "assistant", "content": "So "}, "trailing whitespace"),
    ("messages.+", {"role": "assistant", "content": "So"}, "must start with a thinking block"),
    ("tools.0.name", "a.b", "tools.0.name"),
    ("tools.0.parameters", SCHEMA, "tools.0.parameters: Extra inputs"),
    ("tools.0.input_schema", DROP, "tools.0.input_schema: Field required"),
    ("tools.0.input_schema.type", "array", "input_schema.type"),
    ("tools.0.input_schema.properties.command", "string", "JSON schema is invalid"),
    ("tools.0.input_schema.required", True, "JSON schema is invalid"),
    ("tools.0.input_schema.oneOf", [{}], "at the top level"),
    ("tools.0.input_schema.properties", {"a b": {}}, "Property keys"),
    ("tools.+", {"name": "bash", "input_schema": SCHEMA}, "Tool names must be unique"),
    ("tool_choice", "auto", "tool_choice: Input should be"),
    ("tool_choice", {"type": "any"}, "forces tool use"),
    ("tools", DROP, "only be specified while providing tools"),
]
