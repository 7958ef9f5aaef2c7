"""The OpenAI Responses API, used statelessly: the server stores nothing, and encrypted reasoning is
sent along.

Format: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.classify import stream_error
from agentcli.llm.openai_sdk import OpenAIProtocol, called_function, openai_usage
from agentcli.llm.wire_protocol import (
    StillAlive,
    StreamItem,
    broken_off,
    check_object,
    join_object,
    text_of,
    tool_call,
    unique_calls,
)
from agentcli.messages import (
    FinishReason,
    Message,
    ProviderData,
    Reply,
    Request,
    Role,
    ToolCall,
    ToolSchema,
)

_ENDS = ("response.completed", "response.incomplete", "response.failed")


class Responses(OpenAIProtocol):
    path = "/responses"

    def _parse(self, data: Mapping[str, Any]) -> Reply:
        return parse_reply(data, self._endpoint.name)

    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        items: list[Mapping[str, Any]] = []
        for event in events:
            kind = event.get("type", "")
            if kind == "response.output_text.delta":
                yield TextDelta(text_of(event["delta"]))
            elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
                yield ReasoningDelta(text_of(event["delta"]))
            elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
                yield ToolCallStarted(str(event["item"].get("name") or ""))
            elif kind == "response.function_call_arguments.delta":
                yield StillAlive()
            elif kind == "response.output_item.done":
                items.append(event["item"])
            elif kind == "error":
                raise stream_error(event.get("error") or event)
            elif kind in _ENDS:
                data = dict(check_object(event.get("response")))
                data["output"] = data.get("output") or items
                yield parse_reply(data, self._endpoint.name)
            yield StillAlive(idle=True)

    def _body(self, request: Request) -> bytes:
        head = self._head(request, "max_output_tokens")
        head |= {"store": False, "include": ["reasoning.encrypted_content"]}
        if request.session_id:
            head["prompt_cache_key"] = request.session_id
        if request.effort:
            head["reasoning"] = {"effort": request.effort, "summary": "auto"}
        head |= self._tools(request)
        system = [m.content for m in request.messages if m.role is Role.SYSTEM]
        if system:
            head["instructions"] = "\n\n".join(system)
        return join_object(self._endpoint.head(head), input=self._merged(request.messages))

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }

    def _user(self, blocks: bytes) -> bytes:
        return b'{"type":"message","role":"user","content":[' + blocks + b"]}"

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        if message.role is Role.SYSTEM:
            return []
        if message.role is Role.USER:
            return _content(message)
        if message.role is Role.TOOL:
            output = _content(message) if message.image_urls else message.content
            call_id = message.tool_call_id
            return [{"type": "function_call_output", "call_id": call_id, "output": output}]
        data = message.provider_data
        if data is not None and data.provider == self._endpoint.name:
            return _with_reasoning(message, data.items)
        items = [_message_item(message.content)] if message.content else []
        return items + [_call_item(call) for call in message.tool_calls]


def _content(message: Message) -> list[dict[str, Any]]:
    images = [{"type": "input_image", "image_url": url} for url in message.image_urls]
    return [{"type": "input_text", "text": message.content or " "}, *images]


def _message_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, **called_function(call)}


def _with_reasoning(message: Message, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a reply's items in order, with what `_kept` left out taken from the message."""
    calls = iter(message.tool_calls)
    out: list[dict[str, Any]] = []
    for item in items:
        if item["type"] == "message":
            out.append(
                _message_item(item.get("text") or message.content) | _only(item, "id", "status")
            )
        elif item["type"] == "function_call":
            out += [_call_item(call) | _only(item, "id", "status") for call in islice(calls, 1)]
        else:
            out.append(dict(item))
    return out


def _kept(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what must be sent back of a reply with reasoning: its reasoning items, and the order
    of the others. Text is repeated only where several messages would otherwise merge."""
    several = sum(item["type"] == "message" for item in items) > 1
    kept: list[dict[str, Any]] = []
    for item in items:
        if item["type"] == "reasoning":
            kept.append({k: v for k, v in item.items() if k != "status"})
        elif item["type"] == "message":
            entry = {"type": "message", **_only(item, "id", "status")}
            kept.append(entry | ({"text": _text_of(item)} if several else {}))
        elif item["type"] == "function_call":
            kept.append({"type": "function_call", **_only(item, "id", "status")})
    return kept


def _only(item: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names if item.get(name)}


def _text_of(item: Mapping[str, Any]) -> str:
    parts = item.get("content") or []
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


def parse_reply(data: Mapping[str, Any], provider: str) -> Reply:
    if data.get("status") == "failed" or data.get("error"):
        raise stream_error(data.get("error") or {})
    if data.get("status") not in ("completed", "incomplete"):
        raise broken_off()
    items: list[Mapping[str, Any]] = data.get("output") or []
    messages = [item for item in items if item["type"] == "message"]
    calls = unique_calls(
        (
            tool_call(item.get("call_id"), item.get("name"), item.get("arguments"))
            for item in items
            if item["type"] == "function_call"
        ),
        "call_",
    )
    reasoning = [item for item in items if item["type"] == "reasoning"]
    return Reply(
        text="".join(_text_of(item) for item in messages),
        tool_calls=calls,
        finish_reason=_finish(data, messages, bool(calls)),
        usage=openai_usage(data.get("usage"), "input", "output"),
        model=data.get("model") or "",
        response_id=data.get("id") or "",
        reasoning="\n\n".join(
            part.get("text") or "" for item in reasoning for part in item.get("summary") or []
        ),
        provider_data=(ProviderData(provider, tuple(_kept(items))) if reasoning else None),
    )


def _finish(
    data: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], called: bool
) -> FinishReason:
    if data.get("status") == "incomplete":
        reason = (data.get("incomplete_details") or {}).get("reason")
        filtered = reason == "content_filter"
        return FinishReason.CONTENT_FILTER if filtered else FinishReason.LENGTH
    parts = [part for item in messages for part in item.get("content") or []]
    if parts and all(part.get("type") == "refusal" for part in parts):
        return FinishReason.REFUSAL
    return FinishReason.TOOL_CALLS if called else FinishReason.STOP


PROTOCOL = Responses
