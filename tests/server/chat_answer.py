"""What an OpenAI Chat Completions answer looks like, streamed or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .script import Call, Reply, Usage
from .wire import dumps, event, new_id, pieces


def render(reply: Reply, body: dict[str, Any], usage: Usage) -> list[bytes]:
    """The answer: the events of a stream, or one JSON document."""
    frame: dict[str, Any] = {
        "id": new_id("chatcmpl-", 29),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", ""),
        "service_tier": "default",
        "system_fingerprint": "fp_loopback",
    }
    calls = [_call(call) for call in reply.calls]
    if body.get("stream"):
        return list(_events(reply, calls, body, frame | {"object": "chat.completion.chunk"}, usage))
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if not calls:
        message["content"] = reply.text
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_word}
    return [dumps(frame | {"choices": [choice], "usage": _usage(usage)})]


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": call.id or new_id("call_"),
        "type": "function",
        "function": {"name": call.name, "arguments": call.raw},
    }


def _events(
    reply: Reply,
    calls: list[dict[str, Any]],
    body: dict[str, Any],
    frame: dict[str, Any],
    usage: Usage,
) -> Iterator[bytes]:
    """The role, reasoning, text, calls by index (the head, then the arguments in pieces), the
    finish reason, the usage if it was asked for, and the end mark."""
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        extra = {"usage": None} if with_usage else {}
        return event(frame | {"choices": [choice]} | extra)

    silent = bool(calls or reply.reasoning) and not reply.text
    yield chunk({"role": "assistant", "content": None if silent else "", "refusal": None})
    for piece in pieces(reply.reasoning, reply.chunk):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(reply.text, reply.chunk):
        yield chunk({"content": piece})
    for index, call in enumerate(calls):
        raw = call["function"]["arguments"]
        head = call | {"function": call["function"] | {"arguments": ""}}
        yield chunk({"tool_calls": [{"index": index} | head]})
        for piece in pieces(raw, reply.chunk):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, reply.finish_word)
    if with_usage:
        yield event(frame | {"choices": [], "usage": _usage(usage)})
    yield b"data: [DONE]\n\n"


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
