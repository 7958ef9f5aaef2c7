"""The OpenAI Responses API, used statelessly: the server stores nothing, and encrypted reasoning is
sent along.

Format: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.answers import failure
from agentcli.llm.provider import LEVELS, Efforts
from agentcli.llm.sdk import OpenAIProtocol, called_function, openai_usage
from agentcli.llm.wire_protocol import (
    StillAlive,
    StreamItem,
    broken_off,
    check_object,
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

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.done")
_TEXT = ("response.output_text.delta", "response.refusal.delta")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_WHOLE = {"response.output_text.done": "text", "response.function_call_arguments.done": "arguments"}
"""Events that repeat what came in pieces, and where."""


class Responses(OpenAIProtocol):
    path = "/responses"
    conversation = "input"
    output_limit = "max_output_tokens"
    usual_efforts: ClassVar[Efforts] = {
        level: {"reasoning": {"effort": level, "summary": "auto"}} for level in LEVELS
    }
    call_ids = r"[\w.:-]{1,64}"

    def _parse(self, data: Mapping[str, Any]) -> Reply:
        return parse_reply(data, self.origin)

    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        output = _Output()
        answered = False
        for event in events:
            kind = event.get("type", "")
            if kind in _TEXT:
                output.add_piece(event, is_text=True)
                yield TextDelta(text_of(event["delta"]))
            elif kind in _REASONING:
                yield ReasoningDelta(text_of(event["delta"]))
            elif kind == "response.function_call_arguments.delta":
                output.add_piece(event)
                yield StillAlive()
            elif kind in _WHOLE:
                output.put_whole(event, event.get(_WHOLE[kind]))
            elif kind in ("response.output_item.added", "response.output_item.done"):
                if name := output.put(event):
                    yield ToolCallStarted(name)
            elif kind in _ENDS or (not event and not answered and output.items()):
                answered = True
                data = dict(check_object(event.get("response") if event else {}))
                data["output"] = data.get("output") or output.items()
                if kind == "response.completed":
                    data["status"] = "completed"
                yield parse_reply(data, self.origin)
            yield StillAlive(idle=True)

    def _members(self, request: Request) -> dict[str, Any]:
        head = self._common_members(request)
        head |= {"store": False, "include": ["reasoning.encrypted_content"]}
        if request.session_id:
            head["prompt_cache_key"] = request.session_id
        system = [m.content for m in request.messages if m.role is Role.SYSTEM]
        if system and self.traits.system_role != "user":
            head["instructions"] = "\n\n".join(system)
        return head | self._tools(request)

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }

    def _user(self, blocks: bytes, *, after_tool: bool) -> bytes:
        return b'{"type":"message","role":"user","content":[' + blocks + b"]}"

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        if message.role in self._user_roles():
            return _content(message)
        if message.role is Role.SYSTEM:
            return []
        if message.role is Role.TOOL:
            output = _content(message) if message.image_urls else message.content
            call_id = self._wire_id(message.tool_call_id or "")
            return [{"type": "function_call_output", "call_id": call_id, "output": output}]
        if (data := self._own_data(message)) is not None:
            return self._as_it_came(message, data.items)
        said = {"type": "message", "role": "assistant", "content": message.content}
        return ([said] if message.content else []) + [self._call(c) for c in message.tool_calls]

    def _call(self, call: ToolCall) -> dict[str, Any]:
        call_id = self._wire_id(call.id)
        return {"type": "function_call", "call_id": call_id, **called_function(call)}

    def _as_it_came(
        self, message: Message, items: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return a reply's items in order, with what `_kept` left out taken from the message."""
        calls = iter(message.tool_calls)
        out: list[dict[str, Any]] = []
        for item in items:
            if item["type"] in self.traits.not_returned:
                continue
            if item["type"] == "function_call":
                out += [{**item, **self._call(call)} for call in islice(calls, 1)]
            elif item["type"] == "message" and "content" not in item:
                text = {"type": "output_text", "text": message.content, "annotations": []}
                out.append({"role": "assistant", **item, "content": [text]})
            else:
                out.append(dict(item))
        return out + [self._call(call) for call in calls]


def _content(message: Message) -> list[dict[str, Any]]:
    images = [{"type": "input_image", "image_url": url} for url in message.image_urls]
    return [{"type": "input_text", "text": message.content or " "}, *images]


class _Output:
    """The items of a stream by their place, for servers whose last event does not repeat them."""

    def __init__(self) -> None:
        self._items: dict[Any, dict[str, Any]] = {}
        self._pieces: dict[Any, list[str]] = {}
        self._done: set[Any] = set()

    def put(self, event: Mapping[str, Any]) -> str:
        """Take an item that begins or is done; return the name of the call that begins with it."""
        item, place = event["item"], _place(event)
        known = self._items.pop(None, None) or self._items.get(place)
        if known and place in self._done and known.get("id") != item.get("id"):
            # Some servers give each item the same place.
            self._items[object()] = self._items.pop(place)
            self._pieces.pop(place, None)
            self._done.remove(place)
            known = None
        if event["type"] == "response.output_item.done":
            self._done.add(place)
        self._items[place] = dict(item)
        begins = known is None and item.get("type") == "function_call"
        return str(item.get("name") or "") if begins else ""

    def add_piece(self, event: Mapping[str, Any], *, is_text: bool = False) -> None:
        if is_text:
            self._items.setdefault(_place(event), {"type": "message"})
        self._pieces.setdefault(_place(event), []).append(text_of(event["delta"]))

    def put_whole(self, event: Mapping[str, Any], text: object) -> None:
        if isinstance(text, str) and text:
            if event["type"] == "response.output_text.done":
                self._items.setdefault(_place(event), {"type": "message"})
            self._pieces[_place(event)] = [text]

    def items(self) -> list[dict[str, Any]]:
        return [_filled(item, self._pieces.get(place, ())) for place, item in self._items.items()]


def _place(event: Mapping[str, Any]) -> Any:
    item = event.get("item")
    item_id = item.get("id") if isinstance(item, Mapping) else event.get("item_id")
    return item_id if event.get("output_index") is None else event["output_index"]


def _filled(item: dict[str, Any], pieces: Sequence[str]) -> dict[str, Any]:
    """Return an item with the text or arguments that came only in pieces."""
    text = "".join(pieces)
    if item["type"] == "message" and not item.get("content") and text:
        item["content"] = [{"type": "output_text", "text": text}]
    if item["type"] == "function_call" and not item.get("arguments"):
        item["arguments"] = text
    return item


def _kept(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what must be sent back of a reply besides its text and calls; nothing if that is only
    ids. Text is repeated only where several messages would otherwise merge."""
    several = sum(item["type"] == "message" for item in items) > 1
    kept: list[dict[str, Any]] = []
    for item in items:
        members = {name: value for name, value in item.items() if value is not None}
        if item["type"] == "function_call":
            of_calls = ("call_id", "name", "arguments")
            members = {n: v for n, v in members.items() if n not in of_calls}
        elif item["type"] == "message" and not several and not _is_annotated(item):
            members.pop("content", None)
        kept.append(members)
    plain = {"type", "id", "status", "role"}
    return kept if several or any(not plain.issuperset(item) for item in kept) else []


def _is_annotated(item: Mapping[str, Any]) -> bool:
    parts = item.get("content") or []
    return isinstance(parts, list) and any(part.get("annotations") for part in parts)


def _text_of(item: Mapping[str, Any]) -> str:
    parts = item.get("content") or []
    if isinstance(parts, str):
        return parts
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


def parse_reply(data: Mapping[str, Any], origin: str) -> Reply:
    if data.get("status") == "failed" or data.get("error"):
        raise failure(data.get("error") or {})
    if data.get("status") in ("in_progress", "queued", "cancelled"):
        raise broken_off()
    items: list[Mapping[str, Any]] = data["output"]
    messages = [item for item in items if item["type"] == "message"]
    calls = unique_calls(
        (
            tool_call(
                item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments")
            )
            for item in items
            if item["type"] == "function_call"
        ),
        "call_",
    )
    thought = (
        part.get("text") or ""
        for item in items
        if item["type"] == "reasoning"
        for part in item.get("summary") or item.get("content") or []
    )
    kept = _kept(items)
    return Reply(
        text="".join(_text_of(item) for item in messages),
        tool_calls=calls,
        finish_reason=_finish(data, messages, bool(calls)),
        usage=openai_usage(data.get("usage"), "input", "output"),
        model=data.get("model") or "",
        response_id=data.get("id") or "",
        reasoning="\n\n".join(thought),
        provider_data=ProviderData(origin, tuple(kept)) if kept else None,
    )


def _finish(
    data: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], called: bool
) -> FinishReason:
    if data.get("status") == "incomplete":
        reason = (data.get("incomplete_details") or {}).get("reason")
        filtered = reason == "content_filter"
        return FinishReason.CONTENT_FILTER if filtered else FinishReason.LENGTH
    parts = [p for item in messages for p in item.get("content") or [] if isinstance(p, Mapping)]
    if parts and all(part.get("type") == "refusal" for part in parts):
        return FinishReason.REFUSAL
    return FinishReason.TOOL_CALLS if called else FinishReason.STOP


PROTOCOL = Responses
