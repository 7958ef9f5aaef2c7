"""The Anthropic Messages API.

Format: https://docs.anthropic.com/en/api/messages. Cache marks go on the system text, the tools and
the last two user messages (the API allows four).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.classify import stream_error
from agentcli.llm.sdk import SDKProtocol
from agentcli.llm.wire_protocol import (
    Endpoint,
    StillAlive,
    StreamItem,
    bad_response,
    broken_off,
    dump,
    join_object,
    text_of,
    token_count,
    tool_call,
    unique_calls,
    wire_arguments,
    wire_name,
)
from agentcli.messages import (
    FinishReason,
    Message,
    ProviderData,
    Reply,
    Request,
    Role,
    ToolCall,
    ToolChoice,
    Usage,
)

_CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
_MARKED_USER_MESSAGES = 2
_LEAST_THINKING_TOKENS = 1_024
_THINKING_TOKENS = {"low": 4_096, "medium": 10_240, "high": 24_576}
_TOOL_CHOICE = {ToolChoice.NONE: "none", ToolChoice.AUTO: "auto", ToolChoice.REQUIRED: "any"}
_FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
}
_THINKING = ("thinking", "redacted_thinking")
_FIELD_OF_DELTA = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class _Group:
    """A wire message of one role, as bytes with its content blocks."""

    def __init__(self, role: bytes, part: bytes) -> None:
        self.role = role
        self.wire = b'{"role":"%s","content":[%s]}' % (role, part)

    def add(self, part: bytes) -> None:
        self.wire = self.wire[: -len(b"]}")] + b"," + part + b"]}"

    @property
    def by_user(self) -> bool:
        return self.role == b"user"


class AnthropicMessages(SDKProtocol):
    sdk, client, path = "anthropic", "Anthropic", "/v1/messages"
    models_path = "/v1/models?limit=1000"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._groups: list[_Group] = []
        self._grouped = 0

    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        return _read(events, self._endpoint.name)

    def _parse(self, data: Mapping[str, Any]) -> Reply:
        return parse_reply(data, self._endpoint.name)

    def _body(self, request: Request) -> bytes:
        head = self._head(request, "max_tokens")
        if thinking := self._thinking_tokens(request):
            if request.budget_usd is None:
                head["max_tokens"] = max(request.max_output_tokens, thinking + 4_096)
            head["thinking"] = {"type": "enabled", "budget_tokens": thinking}
        if request.tools:
            tools: list[dict[str, Any]] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in request.tools
            ]
            tools[-1] |= _CACHE_MARK
            head["tools"] = tools
            if request.tool_choice is not ToolChoice.AUTO:
                head["tool_choice"] = {"type": _TOOL_CHOICE[request.tool_choice]}
        system = "\n\n".join(m.content for m in request.messages if m.role is Role.SYSTEM)
        if system:
            head["system"] = [{"type": "text", "text": system, **_CACHE_MARK}]
        head = self._endpoint.head(head)
        return join_object(head, messages=self._messages(request.messages))

    def _thinking_tokens(self, request: Request) -> int:
        """Return how many tokens the model may think; with a budget, at most half of the output."""
        wanted = _THINKING_TOKENS.get(request.effort or "", 0)
        if not self._may_think(request):
            return 0
        if request.budget_usd is not None:
            wanted = min(wanted, request.max_output_tokens // 2)
        return wanted if wanted >= _LEAST_THINKING_TOKENS else 0

    def _may_think(self, request: Request) -> bool:
        """Whether thinking is possible: not after tool calls that another model made without it,
        nor where a call is forced."""
        if request.tool_choice is ToolChoice.REQUIRED:
            return False
        replies = (m for m in reversed(request.messages) if m.role is Role.ASSISTANT)
        last = next(replies, None)
        if last is None or not last.tool_calls:
            return True
        return last.provider_data is not None and last.provider_data.provider == self._endpoint.name

    def _messages(self, messages: Sequence[Message]) -> bytes:
        """Return the messages with alternating roles: consecutive ones of a role become one message
        with several blocks.

        Messages of earlier requests stay grouped; only new ones are processed.
        """
        parts = self._parts.of(messages)
        if self._parts.unchanged < self._grouped:
            self._groups, self._grouped = [], 0
        for message, part in zip(messages[self._grouped :], parts[self._grouped :], strict=True):
            if part:
                self._group(b"assistant" if message.role is Role.ASSISTANT else b"user", part)
        self._grouped = len(parts)
        wire = [group.wire for group in self._groups]
        users = [n for n, group in enumerate(self._groups[-4:], len(wire[:-4])) if group.by_user]
        for number in users[-_MARKED_USER_MESSAGES:]:
            wire[number] = wire[number][: -len(b"}]}")] + b"," + dump(_CACHE_MARK)[1:] + b"]}"
        return b"[" + b",".join(wire) + b"]"

    def _group(self, role: bytes, part: bytes) -> None:
        groups = self._groups
        if not groups and role == b"assistant":
            groups.append(
                _Group(b"user", dump({"type": "text", "text": "(earlier part left out)"}))
            )
        if groups and groups[-1].role == role:
            groups[-1].add(part)
        else:
            groups.append(_Group(role, part))

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        """Return a message's content blocks; those of a reply with thinking keep their order."""
        if message.role is Role.SYSTEM:
            return []
        if message.role is Role.USER:
            return _content(message.content or " ", message)
        if message.role is Role.TOOL:
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
            result["content"] = _content(message.content, message)
            return [result | {"is_error": True} if message.is_error else result]
        calls = [_tool_use(call) for call in message.tool_calls]
        data = message.provider_data
        if data is None or data.provider != self._endpoint.name:
            said = message.content.rstrip()
            return ([{"type": "text", "text": said}] if said else []) + calls
        out: list[dict[str, Any]] = []
        remaining = iter(calls)
        for block in data.items:
            if block["type"] == "text":
                out.append({"type": "text", "text": block.get("text") or message.content})
            elif block["type"] == "tool_use":
                out += islice(remaining, 1)
            else:
                out.append(dict(block))
        return out


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.id,
        "name": wire_name(call.name),
        "input": wire_arguments(call.arguments),
    }


def _content(text: str, message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    for url in message.image_urls:
        if url.startswith("data:"):
            media_type, _, data = url.removeprefix("data:").partition(";base64,")
            source = {"type": "base64", "media_type": media_type, "data": data}
        else:
            source = {"type": "url", "url": url}
        blocks.append({"type": "image", "source": source})
    return blocks or [{"type": "text", "text": "(empty)"}]


@dataclass
class _Collected:
    """The part of a reply received so far: blocks by index, and the pieces of open ones."""

    provider: str
    id: str = ""
    model: str = ""
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    pieces: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    stop_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    def start(self, index: int, block: Mapping[str, Any]) -> Iterator[StreamItem]:
        self.blocks[index] = dict(block)
        if block["type"] == "tool_use":
            yield ToolCallStarted(str(block.get("name") or ""))

    def take_delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[StreamItem]:
        name = _FIELD_OF_DELTA.get(str(delta.get("type")))
        if name is None:
            return
        piece = text_of(delta[name])
        self.pieces.setdefault((index, name), []).append(piece)
        if name == "text":
            yield TextDelta(piece)
        elif name == "thinking":
            yield ReasoningDelta(piece)
        else:
            yield StillAlive()

    def count(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self.usage |= {name: value for name, value in usage.items() if value is not None}

    def reply(self) -> Reply:
        if self.stop_reason is None:
            raise broken_off()
        for (index, name), pieces in self.pieces.items():
            block = self.blocks[index]
            block[name] = "".join([block.get(name) or "", *pieces])
        blocks = [self.blocks[index] for index in sorted(self.blocks)]
        calls = unique_calls(
            (
                tool_call(b.get("id"), b.get("name"), b.pop("partial_json", b.get("input")))
                for b in blocks
                if b["type"] == "tool_use"
            ),
            "toolu_",
        )
        thought = any(block["type"] in _THINKING for block in blocks)
        return Reply(
            text="".join(b.get("text") or "" for b in blocks if b["type"] == "text"),
            tool_calls=calls,
            finish_reason=_FINISH_REASONS.get(self.stop_reason, FinishReason.STOP),
            usage=_usage(self.usage),
            model=self.model,
            response_id=self.id,
            reasoning="".join(b.get("thinking") or "" for b in blocks if b["type"] == "thinking"),
            provider_data=(ProviderData(self.provider, tuple(_kept(blocks))) if thought else None),
        )


def _kept(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what must be sent back of a reply with thinking: the thinking blocks unchanged, and
    the order of the others. Text is repeated only where several blocks would otherwise merge."""
    several = sum(block["type"] == "text" for block in blocks) > 1
    kept: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] in _THINKING:
            kept.append(dict(block))
        elif block["type"] == "text" and block.get("text"):
            kept.append({"type": "text", **({"text": block["text"]} if several else {})})
        elif block["type"] == "tool_use":
            kept.append({"type": "tool_use"})
    return kept


def _read(events: Iterator[Mapping[str, Any]], provider: str) -> Iterator[StreamItem]:
    collected = _Collected(provider)
    for event in events:
        match event.get("type"):
            case "message_start":
                message = event["message"]
                collected.id, collected.model = message.get("id", ""), message.get("model", "")
                collected.count(message.get("usage"))
            case "content_block_start":
                yield from collected.start(event["index"], event["content_block"])
            case "content_block_delta":
                yield from collected.take_delta(event["index"], event["delta"])
            case "message_delta":
                collected.stop_reason = event["delta"].get("stop_reason")
                collected.count(event.get("usage"))
            case "message_stop":
                yield collected.reply()
            case "error":
                raise stream_error(event.get("error"))
        yield StillAlive(idle=True)


def parse_reply(data: Mapping[str, Any], provider: str) -> Reply:
    if data.get("type") != "message" or not isinstance(data.get("content"), list):
        raise bad_response("the server sent a reply without a message")
    collected = _Collected(provider, data.get("id") or "", data.get("model") or "")
    for index, block in enumerate(data["content"]):
        for _ in collected.start(index, block):
            pass
    collected.stop_reason = data.get("stop_reason")
    collected.count(data.get("usage"))
    return collected.reply()


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Anthropic counts cached tokens apart from `input_tokens`; here the prompt includes them."""
    read = token_count(usage, "cache_read_input_tokens")
    written = token_count(usage, "cache_creation_input_tokens")
    return Usage(
        prompt_tokens=token_count(usage, "input_tokens") + read + written,
        completion_tokens=token_count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


PROTOCOL = AnthropicMessages
