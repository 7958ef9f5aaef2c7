"""What an OpenAI Responses answer looks like, streamed or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .script import Call, Reply, Usage
from .wire import dumps, event, new_id, pieces, seal

_ENCRYPTED = "reasoning.encrypted_content"


def render(
    reply: Reply, body: dict[str, Any], usage: Usage, *, account: str = "", phases: bool = False
) -> list[bytes]:
    """The answer: the events of a stream, or one JSON document. `account` is who alone may send its
    encrypted reasoning back; with `phases` each message says which of the two it is."""
    output = _output(reply, body, account, phases)
    response = _envelope(body)
    final = response | _ending(reply) | {"output": output, "usage": _usage(usage)}
    if not body.get("stream"):
        return [dumps(final)]
    events = _events(response, output, reply.chunk)
    names = {"completed": "response.completed", "failed": "response.failed"}
    events.append(
        {"type": names.get(str(final["status"]), "response.incomplete"), "response": final}
    )
    return [
        event(data | {"sequence_number": number}, data["type"])
        for number, data in enumerate(events)
    ]


def _envelope(body: dict[str, Any]) -> dict[str, Any]:
    """The response object before any output; it repeats the request's settings, as the real one
    does."""
    echoed: dict[str, Any] = {
        "background": False,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "",
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }
    given = {key: body[key] for key in echoed if body.get(key) is not None}
    fresh: dict[str, Any] = {
        "id": new_id("resp_", 48),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
    }
    return fresh | echoed | given


def _ending(reply: Reply) -> dict[str, Any]:
    if reply.finish_word in ("stop", "tool_calls", "completed"):
        return {"status": "completed"}
    if reply.finish_word == "failed":
        error = {"code": "server_error", "message": "The model failed to answer."}
        return {"status": "failed", "error": error}
    reason = {"length": "max_output_tokens"}.get(reply.finish_word, reply.finish_word)
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _output(reply: Reply, body: dict[str, Any], account: str, phases: bool) -> list[dict[str, Any]]:
    """Reasoning, then the message, then the calls. The last one is what a stop cut short. Encrypted
    reasoning is given only if `include` asks for it, and a summary only if `reasoning.summary`
    does."""
    items: list[dict[str, Any]] = []
    if reply.text or not reply.calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        message = {"id": new_id("msg_", 48), "type": "message", "role": "assistant"}
        if phases:
            message["phase"] = "commentary" if reply.calls else "final_answer"
        items.append(message | {"status": "completed", "content": content})
    items += [_call(call) for call in reply.calls]
    if _ending(reply)["status"] == "incomplete":
        items[-1]["status"] = "incomplete"
    if not reply.reasoning:
        return items
    settings = body.get("reasoning") or {}
    asked = settings.get("summary") or settings.get("generate_summary")
    summary = [{"type": "summary_text", "text": reply.reasoning}] if asked else []
    thought: dict[str, Any] = {"id": new_id("rs_", 48), "type": "reasoning", "summary": summary}
    if _ENCRYPTED in (body.get("include") or []):
        names = [items[0]["id"], items[0].get("call_id", "")]
        thought["encrypted_content"] = seal([thought["id"], account, *names])
    return [thought, *items]


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": new_id("fc_", 48),
        "type": "function_call",
        "status": "completed",
        "call_id": call.id or new_id("call_"),
        "name": call.name,
        "arguments": call.raw,
    }


def _events(
    response: dict[str, Any], output: list[dict[str, Any]], chunk: int
) -> list[dict[str, Any]]:
    """All events but the last: the response is created, and each item added, filled and done."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
    ]
    fill = {"message": _filled_message, "function_call": _filled_call, "reasoning": _filled_thought}
    blank: dict[str, dict[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
        "reasoning": {"summary": []},
    }
    for index, item in enumerate(output):
        place = {"item_id": item["id"], "output_index": index}
        added = item | blank[item["type"]]
        events.append({"type": "response.output_item.added", "output_index": index, "item": added})
        events += fill[item["type"]](item, place, chunk)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return events


def _filled_message(
    item: dict[str, Any], place: dict[str, Any], chunk: int
) -> Iterator[dict[str, Any]]:
    place = place | {"content_index": 0}
    content = item["content"][0]
    text = content["text"]
    yield {"type": "response.content_part.added", **place, "part": content | {"text": ""}}
    for piece in pieces(text, chunk):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": content}


def _filled_call(
    item: dict[str, Any], place: dict[str, Any], chunk: int
) -> Iterator[dict[str, Any]]:
    kind = "response.function_call_arguments"
    for piece in pieces(item["arguments"], chunk):
        yield {"type": f"{kind}.delta", **place, "delta": piece}
    yield {"type": f"{kind}.done", **place, "arguments": item["arguments"]}


def _filled_thought(
    item: dict[str, Any], place: dict[str, Any], chunk: int
) -> Iterator[dict[str, Any]]:
    kind = "response.reasoning_summary"
    for index, summary in enumerate(item["summary"]):
        place = place | {"summary_index": index}
        yield {"type": f"{kind}_part.added", **place, "part": summary | {"text": ""}}
        for piece in pieces(summary["text"], chunk):
            yield {"type": f"{kind}_text.delta", **place, "delta": piece}
        yield {"type": f"{kind}_text.done", **place, "text": summary["text"]}
        yield {"type": f"{kind}_part.done", **place, "part": summary}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
