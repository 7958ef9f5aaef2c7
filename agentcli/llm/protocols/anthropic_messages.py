"""The Anthropic Messages API.

Format: https://docs.anthropic.com/en/api/messages. Cache marks go on the system text, the tools and
the last two user messages (the API allows four).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.answers import whole_arguments
from agentcli.llm.provider import ADAPTIVE, Efforts
from agentcli.llm.sdk import SDKProtocol
from agentcli.llm.wire_protocol import (
    Endpoint,
    StillAlive,
    StreamItem,
    bad_response,
    broken_off,
    dump,
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
    ToolChoice,
    Usage,
)

_CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
_LEAST_THINKING_TOKENS = 1_024
_TOOL_CHOICE = {ToolChoice.NONE: "none", ToolChoice.AUTO: "auto", ToolChoice.REQUIRED: "any"}
_FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "pause_turn": FinishReason.PAUSED,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
}
_THINKING = ("thinking", "redacted_thinking")
_MOST_PAUSES = 10
_PIECES = " pieces"
"""Where a block holds pieces while it arrives: no member of a provider's is called so."""
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "thinking"),
    "input_json_delta": ("partial_json", "tool_use"),
}
"""By type of delta, its member with the piece, and the type of its block."""


class _Group:
    """A wire message of one role, as bytes with its content blocks."""

    def __init__(self, role: bytes, part: bytes) -> None:
        self.role = role
        self.wire = b'{"role":"%s","content":[%s]}' % (role, part)

    def add(self, part: bytes) -> None:
        self.wire = self.wire[: -len(b"]}")] + b"," + part + b"]}"


class AnthropicMessages(SDKProtocol):
    sdk, client, path = "anthropic", "Anthropic", "/v1/messages"
    models_path = "/v1/models?limit=1000"
    output_limit = "max_tokens"
    usual_efforts: ClassVar[Efforts] = ADAPTIVE
    call_ids = r"[a-zA-Z0-9_-]{1,64}"
    call_prefix = "toolu_"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._groups: list[_Group] = []
        self._grouped = 0
        self._blocks: list[dict[str, Any]] = []
        """Those of the reply that is being received, in all its parts."""

    def answer(self, request: Request) -> Iterator[StreamItem]:
        """Yield the reply as it arrives. One that the server paused is sent back for the server to
        go on with, and what it then says belongs to the same reply; not if money is limited, which
        was reckoned for one request."""
        self._blocks = []
        usage, asked = Usage(), request
        for pauses_left in reversed(range(_MOST_PAUSES)):
            for item in super().answer(asked):
                if not isinstance(item, Reply):
                    yield item
                    continue
                usage += item.usage
                reply = replace(item, usage=usage)
            if reply.finish_reason is not FinishReason.PAUSED:
                break
            if not pauses_left or request.budget_usd is not None:
                reply = replace(reply, finish_reason=FinishReason.LENGTH)
                break
            said = Message.from_tool_calls(reply.tool_calls, reply.text, reply.provider_data)
            asked = replace(request, messages=[*request.messages, said])
        yield reply

    def learn(self, changes: Mapping[str, Any]) -> None:
        super().learn(changes)
        self._groups, self._grouped = [], 0

    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        collected = _Collected(self.origin, self._blocks)
        for event in events:
            match event.get("type"):
                case "message_start":
                    message = event["message"]
                    collected.id, collected.model = message.get("id", ""), message.get("model", "")
                    collected.count(message.get("usage"))
                case "content_block_start":
                    block = event["content_block"]
                    collected.start(event.get("index"), block)
                    if block["type"] == "tool_use":
                        yield ToolCallStarted(str(block.get("name") or ""))
                case "content_block_delta":
                    yield from collected.take_delta(event.get("index"), event["delta"])
                case "message_delta":
                    delta = event.get("delta") or {}
                    collected.stop_reason = delta.get("stop_reason") or collected.stop_reason
                    collected.count(event.get("usage"))
                case "message_stop":
                    yield collected.reply(ended=True)
                    return
            yield StillAlive(idle=True)
        yield collected.reply(ended=False)

    def _parse(self, data: Mapping[str, Any]) -> Reply:
        return _parsed(data, _Collected(self.origin, self._blocks))

    def _members(self, request: Request) -> dict[str, Any]:
        head = self._common_members(request)
        self._limit_thinking(head, request)
        marked = _CACHE_MARK if self.traits.cache_marks else {}
        if request.tools:
            tools: list[dict[str, Any]] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in request.tools
            ]
            tools[-1] |= marked
            head["tools"] = tools
            if self._chooses(request):
                head["tool_choice"] = {"type": _TOOL_CHOICE[request.tool_choice]}
        system = "\n\n".join(m.content for m in request.messages if m.role is Role.SYSTEM)
        if system and self.traits.system_role != "user":
            head["system"] = [{"type": "text", "text": system, **marked}]
        return head

    def _limit_thinking(self, head: dict[str, Any], request: Request) -> None:
        """Fit the tokens that an older model may think into the reply's cap, which grows unless
        money is limited; leave thinking out where it is not possible."""
        thinking = head.get("thinking") or {}
        if thinking.get("type") != "enabled":
            return
        cap, tokens = self.traits.output_limit or self.output_limit, thinking["budget_tokens"]
        if request.budget_usd is not None:
            tokens = min(tokens, head[cap] // 2)
        if tokens < _LEAST_THINKING_TOKENS or not self._may_think(request):
            del head["thinking"]
            return
        head["thinking"] = {**thinking, "budget_tokens": tokens}
        head[cap] = max(head[cap], tokens + 4_096) if request.budget_usd is None else head[cap]
        head.pop("temperature", None)

    def _may_think(self, request: Request) -> bool:
        """Whether an older model may think: not after tool calls that another model made without
        it, nor where a call is forced."""
        if request.tool_choice is ToolChoice.REQUIRED:
            return False
        replies = (m for m in reversed(request.messages) if m.role is Role.ASSISTANT)
        last = next(replies, None)
        if last is None or not last.tool_calls:
            return True
        data = self._own_data(last)
        return data is not None and any(block["type"] in _THINKING for block in data.items)

    def _conversation(self, messages: Sequence[Message]) -> bytes:
        """Return the messages with alternating roles: consecutive ones of a role become one message
        with several blocks. Messages of earlier requests stay grouped; only new ones are
        processed."""
        parts = self._parts.of(messages)
        if self._parts.unchanged < self._grouped:
            self._groups, self._grouped = [], 0
        for message, part in zip(messages[self._grouped :], parts[self._grouped :], strict=True):
            if part:
                self._group(b"assistant" if message.role is Role.ASSISTANT else b"user", part)
        self._grouped = len(parts)
        wire = [group.wire for group in self._groups]
        newest = enumerate(self._groups[-4:], len(wire[:-4]))
        users = [number for number, group in newest if group.role == b"user"]
        for number in users[-2:] if self.traits.cache_marks else ():
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
        """Return a message's content blocks; those of a reply of this model as they came."""
        if message.role is Role.SYSTEM and self.traits.system_role != "user":
            return []
        if message.role in (Role.USER, Role.SYSTEM):
            return _content(message.content or " ", message)
        if message.role is Role.TOOL:
            call_id = self._wire_id(message.tool_call_id or "")
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
            result["content"] = _content(message.content, message)
            return [result | {"is_error": True} if message.is_error else result]
        calls: list[dict[str, Any]] = [
            {
                "type": "tool_use",
                "id": self._wire_id(call.id),
                "name": wire_name(call.name),
                "input": wire_arguments(call.arguments),
            }
            for call in message.tool_calls
        ]
        data = self._own_data(message)
        if data is None:
            said = message.content.rstrip()
            return ([{"type": "text", "text": said}] if said else []) + calls
        # Thinking that is bound to what came before it is invalid once that has changed.
        unbound = _THINKING if message.prefix_changed and self.traits.is_bound else ()
        left_out = (*unbound, *self.traits.not_returned)
        out: list[dict[str, Any]] = []
        remaining = iter(calls)
        for block in data.items:
            if block["type"] == "text":
                text = {"text": message.content, **block}
                out += [text] if _is_said(text) else []
            elif block["type"] == "tool_use":
                out += [{**block, **call} for call in islice(remaining, 1)]
            elif block["type"] not in left_out:
                out.append(dict(block))
        return [*out, *remaining]


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

    origin: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    id: str = ""
    model: str = ""
    at: dict[object, dict[str, Any]] = field(default_factory=dict)
    """By index, the block that began there last."""
    stop_reason: str = ""
    usage: dict[str, Any] = field(default_factory=dict)

    def start(self, index: object, block: Mapping[str, Any]) -> None:
        """Begin a block: a new one, whatever its index says."""
        self.at[index] = dict(block)
        self.blocks.append(self.at[index])

    def take_delta(self, index: object, delta: Mapping[str, Any]) -> Iterator[StreamItem]:
        kind = str(delta.get("type"))
        if kind == "citations_delta":
            block = self._block(index, "text")
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        if kind not in _DELTAS:
            return
        name, of_block = _DELTAS[kind]
        piece = text_of(delta.get(name) or "")
        block = self._block(index, of_block)
        block.setdefault(_PIECES, {}).setdefault(name, []).append(piece)
        if name == "text":
            yield TextDelta(piece)
        elif name == "thinking":
            yield ReasoningDelta(piece)
        else:
            yield StillAlive()

    def _block(self, index: object, kind: str) -> dict[str, Any]:
        """Return the block of a delta; one that nothing began begins with it."""
        if index not in self.at:
            self.start(index, {"type": kind})
        return self.at[index]

    def count(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self.usage |= {name: value for name, value in usage.items() if value is not None}

    def reply(self, *, ended: bool) -> Reply:
        if not self.stop_reason and not (ended and self.blocks):
            raise broken_off()
        blocks = [_put_together(block) for block in self.blocks]
        used = [block for block in blocks if block["type"] == "tool_use"]
        calls = unique_calls(
            (tool_call(b.get("id"), b.get("name"), b.get("input")) for b in used), "toolu_"
        )
        usual = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        kept = _kept(blocks)
        return Reply(
            text="".join(b.get("text") or "" for b in blocks if b["type"] == "text"),
            tool_calls=calls,
            finish_reason=_FINISH_REASONS.get(self.stop_reason, usual),
            usage=_usage(self.usage),
            model=self.model,
            response_id=self.id,
            reasoning="".join(b.get("thinking") or "" for b in blocks if b["type"] == "thinking"),
            provider_data=ProviderData(self.origin, tuple(kept)) if kept else None,
        )


def _put_together(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block with the text that came in pieces. The input of a call stays JSON text; it may
    also have come whole at the start of the block."""
    pieces: dict[str, list[str]] = block.pop(_PIECES, {})
    for name, each in pieces.items():
        if name != "partial_json":
            block[name] = "".join([block.get(name) or "", *each])
        elif arguments := whole_arguments(each):
            is_own = block["type"] == "tool_use"
            block["input"] = arguments if is_own else wire_arguments(arguments)
    return block


def _kept(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what must be sent back of a reply besides its text and calls; nothing if there is
    none. Text is repeated only where several blocks would otherwise merge."""
    said = [block for block in blocks if block["type"] == "text" and _is_said(block)]
    kept: list[dict[str, Any]] = []
    for block in blocks:
        members = {name: value for name, value in block.items() if value is not None}
        if block["type"] == "tool_use":
            kept.append({n: v for n, v in members.items() if n not in ("id", "name", "input")})
        elif block["type"] != "text":
            kept.append(members)
        elif _is_said(block):
            if len(said) == 1:
                members.pop("text")
            kept.append({n: v for n, v in members.items() if v != []})
    return kept if any(block.keys() - {"type"} for block in kept) else []


def _is_said(block: Mapping[str, Any]) -> bool:
    """Whether a text block says something: blank ones are refused."""
    return bool((block.get("text") or "").strip())


def parse_reply(data: Mapping[str, Any], origin: str) -> Reply:
    return _parsed(data, _Collected(origin))


def _parsed(data: Mapping[str, Any], collected: _Collected) -> Reply:
    if data.get("type") != "message" or not isinstance(data.get("content"), list):
        raise bad_response("the server sent a reply without a message")
    collected.id, collected.model = data.get("id") or "", data.get("model") or ""
    for index, block in enumerate(data["content"]):
        collected.start(index, block)
    collected.stop_reason = data.get("stop_reason") or ""
    collected.count(data.get("usage"))
    return collected.reply(ended=True)


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
