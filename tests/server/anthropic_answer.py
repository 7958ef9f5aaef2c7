"""What an Anthropic Messages answer looks like, streamed or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .script import Reply, Usage
from .wire import dumps, event, new_id, pieces, signature

_STOP = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_FIRST_TOKEN = {"output_tokens": 1}
_FINAL_USAGE = {
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
}


def render(
    reply: Reply, body: dict[str, Any], usage: Usage, *, prefix: str = "", hidden: bool = False
) -> list[bytes]:
    """The answer: the events of a stream, or one JSON document. `prefix` is the digest of the
    conversation that its thinking is bound to; `hidden`: thinking is only shown if asked for."""
    message = {
        "id": new_id("msg_01", 22),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    stop = {"stop_reason": _STOP.get(reply.finish_word, reply.finish_word), "stop_sequence": None}
    blocks = _content(reply, body, prefix, "omitted" if hidden else "summarized")
    if not body.get("stream"):
        content = [block for block, _ in blocks]
        return [dumps(message | stop | {"content": content, "usage": _usage(usage)})]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"usage": _usage(usage) | _FIRST_TOKEN}}
    ]
    for index, (block, raw) in enumerate(blocks):
        place = {"index": index}
        events.append({"type": "content_block_start", **place, "content_block": _blank(block)})
        if index == 0:
            events.append({"type": "ping"})
        for delta in _deltas(block, raw, reply.chunk):
            events.append({"type": "content_block_delta", **place, "delta": delta})
        events.append({"type": "content_block_stop", **place})
    final = {key: value for key, value in _usage(usage).items() if key in _FINAL_USAGE}
    events.append({"type": "message_delta", "delta": stop, "usage": final})
    events.append({"type": "message_stop"})
    return [event(data, data["type"]) for data in events]


def _content(
    reply: Reply, body: dict[str, Any], prefix: str, display: str
) -> list[tuple[dict[str, Any], str]]:
    """Thinking, text and tool uses, each with the raw text its deltas carry. With thinking enabled
    there always is some; with it disabled there is none; its text is left out when the request
    wants it omitted. A document has no form for broken arguments: their input is empty there."""
    blocks: list[tuple[dict[str, Any], str]] = []
    thinking = body.get("thinking", {})
    kind = thinking.get("type")
    if kind == "enabled" or (reply.reasoning and kind != "disabled"):
        text = reply.reasoning or "Thinking."
        if (thinking.get("display") or display) == "omitted":
            text = ""
        block = {"type": "thinking", "thinking": text, "signature": signature(text, prefix)}
        blocks.append((block, text))
    if reply.text:
        blocks.append(({"type": "text", "text": reply.text}, reply.text))
    for call in reply.calls:
        block = {"type": "tool_use", "id": call.id or new_id("toolu_01", 22), "name": call.name}
        blocks.append((block | {"input": _object(call.raw)}, call.raw))
    return blocks


def _object(raw: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _blank(block: dict[str, Any]) -> dict[str, Any]:
    """A block as its start event shows it, before any delta."""
    empty = {"thinking": "", "signature": "", "text": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: dict[str, Any], raw: str, chunk: int) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    if kind == "tool_use":
        for piece in ["", *pieces(raw, chunk)]:
            yield {"type": "input_json_delta", "partial_json": piece}
        return
    for piece in pieces(raw, chunk):
        yield {"type": f"{kind}_delta", kind: piece}
    if kind == "thinking":
        yield {"type": "signature_delta", "signature": block["signature"]}


def _usage(usage: Usage) -> dict[str, Any]:
    """Input tokens are those neither read from nor written to the cache."""
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }
