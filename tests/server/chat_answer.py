"""What a Chat Completions answer looks like, streamed or not: OpenAI's, and as others differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .script import Call, Reply, Usage
from .wire import dumps, event, new_id, pieces, signature


def _call_id(_thought: bool) -> str:
    return new_id("call_")


@dataclass(frozen=True)
class Style:
    """How a server answers where it differs from OpenAI."""

    reasoning: str = "reasoning_content"
    """The member that reasoning comes in; empty: it stays inside. `<think>`: in tags before the
    content. `thinking`: as parts of the content. `reasoning_details`: so, and in `reasoning`."""
    call_id: Callable[[bool], str] = _call_id
    """Makes the id of a call, told whether there was reasoning before it."""
    index: Literal["counted", "zero", "absent"] = "counted"
    """What a streamed call says of its place."""
    whole_calls: bool = False
    """Whether a call comes in one piece."""
    first_call: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Makes members of a reply's first call."""
    finish: Mapping[str, str] = field(default_factory=dict)
    """Its words for the reasons to finish a stream, by OpenAI's."""
    usage: Literal["asked", "own", "last", "choice"] = "asked"
    """Where a stream tells its usage: in an event of its own if asked, or always; in the event that
    tells the finish; within its choice."""
    opening: bytes = b""
    """What a stream begins with."""
    pause: bytes = b""
    """What comes before each piece of reasoning."""

    def thought(self, text: str) -> dict[str, Any]:
        """The members of a message or delta that carry a piece of reasoning."""
        if self.reasoning == "thinking":
            part = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            return {"content": [part]}
        if self.reasoning == "reasoning_details":
            detail = {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1"}
            return {"reasoning": text, "reasoning_details": [detail | {"index": 0}]}
        return {"content" if self.reasoning == "<think>" else self.reasoning: text}


OPENAI_STYLE = Style()


def render(
    reply: Reply, body: dict[str, Any], usage: Usage, style: Style = OPENAI_STYLE
) -> list[bytes]:
    """The answer: the events of a stream, or one JSON document."""
    frame: dict[str, Any] = {
        "id": new_id("chatcmpl-", 29),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", ""),
        "service_tier": "default",
        "system_fingerprint": "fp_loopback",
    }
    calls = [_call(call, reply, style, number) for number, call in enumerate(reply.calls)]
    if body.get("stream"):
        head = frame | {"object": "chat.completion.chunk"}
        return list(_events(reply, calls, body, head, usage, style))
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if not calls:
        message["content"] = reply.text
    if reply.reasoning and style.reasoning:
        message |= _whole_thought(reply, style)
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_word}
    return [dumps(frame | {"choices": [choice], "usage": _usage(usage)})]


def _whole_thought(reply: Reply, style: Style) -> dict[str, Any]:
    """The reasoning of an unstreamed message, with its content where both share a member."""
    if style.reasoning == "<think>":
        return {"content": f"<think>\n{reply.reasoning}\n</think>\n\n{reply.text}"}
    found = style.thought(reply.reasoning)
    if style.reasoning == "thinking":
        found["content"].append({"type": "text", "text": reply.text})
    if style.reasoning == "reasoning_details":
        found["reasoning_details"][0]["signature"] = signature(reply.reasoning)
    return found


def _call(call: Call, reply: Reply, style: Style, number: int) -> dict[str, Any]:
    extra = {} if number else {name: make() for name, make in style.first_call.items()}
    return {
        "id": call.id or style.call_id(bool(reply.reasoning)),
        "type": "function",
        "function": {"name": call.name, "arguments": call.raw},
    } | extra


def _events(
    reply: Reply,
    calls: list[dict[str, Any]],
    body: dict[str, Any],
    frame: dict[str, Any],
    usage: Usage,
    style: Style,
) -> Iterator[bytes]:
    """The role, reasoning, text, calls (the head, then the arguments in pieces), the finish reason,
    the usage, and the end mark."""
    asked = bool((body.get("stream_options") or {}).get("include_usage"))
    counted: dict[str, Any] = {"usage": _usage(usage)}

    def chunk(delta: dict[str, Any], finish: str | None = None, **extra: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if finish and style.usage == "choice":
            choice |= counted
        told = {"usage": None} if asked and style.usage == "asked" else {}
        return event(frame | {"choices": [choice]} | told | extra)

    if style.opening:
        yield style.opening
    silent = bool(calls or reply.reasoning) and not reply.text
    yield chunk({"role": "assistant", "content": None if silent else "", "refusal": None})
    for delta in _thoughts(reply, style):
        yield style.pause + chunk(delta)
    for piece in pieces(reply.text, reply.chunk):
        yield chunk({"content": piece})
    for number, call in enumerate(calls):
        for part in _call_parts(call, reply.chunk, style):
            place = {"counted": {"index": number}, "zero": {"index": 0}}.get(style.index, {})
            yield chunk({"tool_calls": [place | part]})
    finish = style.finish.get(reply.finish_word, reply.finish_word)
    yield chunk({}, finish, **(counted if style.usage == "last" else {}))
    if style.usage == "own" or (style.usage == "asked" and asked):
        yield event(frame | {"choices": []} | counted)
    yield b"data: [DONE]\n\n"


def _thoughts(reply: Reply, style: Style) -> Iterator[dict[str, Any]]:
    """The deltas of the reasoning; what signs it comes last."""
    if not (reply.reasoning and style.reasoning):
        return
    if style.reasoning == "<think>":
        yield {"content": "<think>\n"}
    for piece in pieces(reply.reasoning, reply.chunk):
        yield style.thought(piece)
    if style.reasoning == "<think>":
        yield {"content": "\n</think>\n\n"}
    if style.reasoning == "reasoning_details":
        signed = {"type": "reasoning.text", "signature": signature(reply.reasoning), "index": 0}
        yield {"reasoning_details": [signed | {"format": "anthropic-claude-v1"}]}


def _call_parts(call: dict[str, Any], chunk: int, style: Style) -> Iterator[dict[str, Any]]:
    if style.whole_calls:
        yield call
        return
    yield call | {"function": call["function"] | {"arguments": ""}}
    for piece in pieces(call["function"]["arguments"], chunk):
        yield {"function": {"arguments": piece}}


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
