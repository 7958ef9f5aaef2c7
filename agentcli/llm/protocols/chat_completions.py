"""The OpenAI Chat Completions API, offered by OpenAI and most other servers.

Format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.classify import stream_error
from agentcli.llm.openai_sdk import OpenAIProtocol, called_function, openai_usage
from agentcli.llm.wire_protocol import (
    StillAlive,
    StreamItem,
    bad_response,
    broken_off,
    dump,
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

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}
_FAILED = ("error", "network_error", "insufficient_system_resource")
"""Finish reasons of servers that could not complete the reply."""
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class ChatCompletions(OpenAIProtocol):
    path = "/chat/completions"

    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        return _read(events, self._endpoint.name)

    def _parse(self, data: Mapping[str, Any]) -> Reply:
        return parse_reply(data, self._endpoint.name)

    def _body(self, request: Request) -> bytes:
        endpoint = self._endpoint
        genuine = endpoint.provider == "openai-chat"
        limit = "max_completion_tokens" if genuine else "max_tokens"
        head = self._head(request, limit)
        if endpoint.stream:
            head["stream_options"] = {"include_usage": True}
        if genuine and request.session_id:
            head["prompt_cache_key"] = request.session_id
        if request.effort:
            head["reasoning_effort"] = request.effort
        head |= self._tools(request)
        return join_object(endpoint.head(head), messages=self._merged(request.messages))

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        """Return how a tool is declared; without `default` for Gemini's endpoint, which refuses
        it."""
        is_gemini = self._endpoint.provider == "gemini"
        parameters = _without_defaults(tool.parameters) if is_gemini else tool.parameters
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
        }
        return {"type": "function", "function": function}

    def _user(self, blocks: bytes) -> bytes:
        return b'{"role":"user","content":[' + blocks + b"]}"

    def _following(self, message: Message) -> list[bytes]:
        """Return the images of a tool's result, which a tool message can't hold."""
        shown = message.role is Role.TOOL and self._endpoint.images
        return [dump(block) for block in _images(message)] if shown else []

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        if message.role is Role.USER:
            return [{"type": "text", "text": message.content or " "}, *_images(message)]
        if message.role is Role.TOOL:
            content = message.content
            return [{"role": "tool", "tool_call_id": message.tool_call_id, "content": content}]
        if message.role is Role.SYSTEM:
            return [{"role": "system", "content": message.content}]
        item: dict[str, Any] = {"role": "assistant", "content": message.content or None}
        if message.tool_calls:
            item["tool_calls"] = [
                {"id": call.id, "type": "function", "function": called_function(call)}
                for call in message.tool_calls
            ]
        data = message.provider_data
        if data is not None and data.provider == self._endpoint.name:
            for fields in data.items:
                item |= fields
        return [item]


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        kept = {key: _without_defaults(value) for key, value in schema.items()}
        if "type" in kept:
            kept.pop("default", None)
        return kept
    return [_without_defaults(item) for item in schema] if isinstance(schema, list) else schema


def _images(message: Message) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": url}} for url in message.image_urls]


@dataclass
class _Call:
    id: object = ""
    name: object = ""
    pieces: list[str] = field(default_factory=list)
    arguments: object = None
    """Set if the arguments arrived as something other than text."""

    def finished(self) -> ToolCall:
        arguments = "".join(self.pieces) if self.arguments is None else self.arguments
        return tool_call(self.id, self.name, arguments)


@dataclass
class _Collected:
    """The part of a reply received so far."""

    provider: str
    id: str = ""
    model: str = ""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    reasoning_details: list[Any] = field(default_factory=list)
    thinking_blocks: list[dict[str, Any]] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    finish: str | None = None
    usage: object = None

    def take_delta(self, delta: Mapping[str, Any]) -> Iterator[StreamItem]:
        if text := text_of(delta.get("content") or ""):
            self.text.append(text)
            yield TextDelta(text)
        if refusal := delta.get("refusal"):
            self.refusal.append(text_of(refusal))
        for name in _REASONING_FIELDS:
            if reasoning := text_of(delta.get(name) or ""):
                self.reasoning.append(reasoning)
                yield ReasoningDelta(reasoning)
                break
        self.reasoning_details += delta.get("reasoning_details") or []
        for piece in delta.get("thinking_blocks") or []:
            self._take_thinking(piece)
        for position, piece in enumerate(delta.get("tool_calls") or []):
            index = piece.get("index")
            call = self.calls.setdefault(position if index is None else index, _Call())
            function = piece["function"]
            call.id = call.id or piece.get("id")
            if not call.name and function.get("name"):
                call.name = function["name"]
                yield ToolCallStarted(str(call.name))
            arguments = function.get("arguments") or ""
            if isinstance(arguments, str):
                call.pieces.append(arguments)
            else:
                call.arguments = arguments
            yield StillAlive()

    def _take_thinking(self, piece: Mapping[str, Any]) -> None:
        """Add a part of a thinking block, as LiteLLM's proxy relays it from Anthropic. A signature
        ends a block."""
        last = self.thinking_blocks[-1] if self.thinking_blocks else {}
        if last.get("type") == piece.get("type") == "thinking" and not last.get("signature"):
            last["thinking"] = f"{last.get('thinking') or ''}{piece.get('thinking') or ''}"
            last["signature"] = piece.get("signature")
        else:
            self.thinking_blocks.append(dict(piece))

    def _kept(self) -> dict[str, Any]:
        """Return what must be sent back with the reply: its reasoning, in the server's own form."""
        signed = [b for b in self.thinking_blocks if b.get("signature") or b.get("data")]
        fields = {"reasoning_details": self.reasoning_details, "thinking_blocks": signed}
        return {name: items for name, items in fields.items() if items}

    def reply(self) -> Reply:
        if self.finish is None:
            raise broken_off()
        if self.finish in _FAILED:
            raise bad_response("the server could not finish the reply")
        finish = _FINISH_REASONS.get(self.finish, FinishReason.STOP)
        if self.refusal and not self.text:
            finish = FinishReason.REFUSAL
        calls = [call.finished() for _, call in sorted(self.calls.items())]
        kept = self._kept()
        return Reply(
            text="".join(self.text or self.refusal),
            tool_calls=unique_calls(calls, "call_"),
            finish_reason=finish,
            usage=openai_usage(self.usage, "prompt", "completion"),
            model=self.model,
            response_id=self.id,
            reasoning="".join(self.reasoning),
            provider_data=ProviderData(self.provider, (kept,)) if kept else None,
        )


def _read(chunks: Iterator[Mapping[str, Any]], provider: str) -> Iterator[StreamItem]:
    collected = _Collected(provider)
    answered = False
    for chunk in chunks:
        if not chunk:
            answered = True
            yield collected.reply()
            continue
        if error := chunk.get("error"):
            raise stream_error(error)
        collected.id = collected.id or chunk.get("id") or ""
        collected.model = collected.model or chunk.get("model") or ""
        collected.usage = chunk.get("usage") or collected.usage
        for choice in chunk.get("choices") or []:
            if not choice.get("index"):
                yield from collected.take_delta(choice.get("delta") or {})
                collected.finish = choice.get("finish_reason") or collected.finish
        yield StillAlive(idle=True)
    if not answered:
        yield collected.reply()


def parse_reply(data: Mapping[str, Any], provider: str) -> Reply:
    if error := data.get("error"):
        raise stream_error(error)
    first = next((choice for choice in data["choices"] if not choice.get("index")), None)
    if first is None:
        raise bad_response("the server sent a reply without a message")
    collected = _Collected(provider, data.get("id") or "", data.get("model") or "")
    for _ in collected.take_delta(first["message"]):
        pass
    collected.finish = first.get("finish_reason")
    collected.usage = data.get("usage")
    return collected.reply()


PROTOCOL = ChatCompletions
