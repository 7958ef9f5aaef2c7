"""The OpenAI Chat Completions API, offered by OpenAI and most other servers.

Format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentcli.errors import AgentError, LLMError, LLMErrorKind
from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.answers import OpenCalls, merge, refused_reply
from agentcli.llm.provider import levels
from agentcli.llm.sdk import OpenAIProtocol, called_function, openai_usage
from agentcli.llm.wire_protocol import (
    StillAlive,
    StreamItem,
    bad_response,
    broken_off,
    dump,
    text_of,
    unique_calls,
)
from agentcli.messages import FinishReason, Message, ProviderData, Reply, Request, Role, ToolSchema

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}
_LENGTH = re.compile("length|max_|limit")
"""Finish reasons of replies that were cut off."""
_FAILED = ("error", "network_error", "insufficient_system_resource")
"""Finish reasons of servers that could not complete the reply."""
_TOO_LONG = "model_context_window_exceeded"
"""The finish reason with which z.ai answers a prompt that does not fit."""
_NOT_KEPT = ("role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio")
"""Members of a message that are made from the reply when it goes back, and the last two, which
requests have no place for."""
_REASONING = re.compile("reason|think|thought")
_END_OF_THOUGHT = re.compile(r"</(?:\w+:)?think(?:ing)?>|\[/THINK\]|<channel\|>")
_TEXT, _IMAGE = b'{"type":"text","text":', b'{"type":"image_url"'
"""How content blocks begin."""
_BETWEEN = dump({"role": "assistant", "content": "Understood."})
"""What stands between a tool's result and the user where one may not follow the other."""


class ChatCompletions(OpenAIProtocol):
    path = "/chat/completions"
    output_limit = "max_tokens"
    usual_efforts = levels("none minimal low medium high xhigh max")
    call_ids = r"[\w.:-]{1,40}"

    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        collected = _Collected(self.origin)
        try:
            yield from _collect(events, collected)
        except LLMError as error:
            if not error.generation:
                raise
            yield collected.refused_reply(error.generation)

    def _parse(self, data: Mapping[str, Any]) -> Reply:
        return parse_reply(data, self.origin)

    def _members(self, request: Request) -> dict[str, Any]:
        head = self._common_members(request)
        if self._endpoint.stream:
            head["stream_options"] = {"include_usage": True}
        if self.traits.cache_key and request.session_id:
            head["prompt_cache_key"] = request.session_id
        return head | self._tools(request)

    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        return {"type": "function", "function": function}

    def _user(self, blocks: bytes, *, after_tool: bool) -> bytes:
        content = b"[" + blocks + b"]"
        if _IMAGE not in blocks:
            # Many servers take nothing but a string.
            content = blocks.removeprefix(_TEXT).removesuffix(b"}")
            content = content.replace(b'"},' + _TEXT + b'"', rb"\n\n")
        message = b'{"role":"user","content":' + content + b"}"
        if after_tool and not self.traits.user_after_tool:
            return _BETWEEN + b"," + message
        return message

    def _following(self, message: Message) -> list[bytes]:
        """Return the images of a tool's result, which a tool message can't hold."""
        return [dump(block) for block in _images(message)] if message.role is Role.TOOL else []

    def _wire(self, message: Message) -> list[dict[str, Any]]:
        if message.role in self._user_roles():
            return [{"type": "text", "text": message.content or " "}, *_images(message)]
        if message.role is Role.TOOL:
            call_id = self._wire_id(message.tool_call_id or "")
            return [{"role": "tool", "tool_call_id": call_id, "content": message.content}]
        if message.role is Role.SYSTEM:
            return [{"role": self.traits.system_role, "content": message.content}]
        return [self._said(message)]

    def _said(self, message: Message) -> dict[str, Any]:
        """Return a reply as a message, with the members that the server gave it."""
        kept: dict[str, Any] = {}
        if (data := self._own_data(message)) is not None:
            merge(kept, data.items[0])
        beside: list[dict[str, Any]] = kept.pop("tool_calls", [])
        content = message.content or self.traits.filled.get("content")
        item: dict[str, Any] = {"role": "assistant", "content": content}
        if message.tool_calls:
            calls: list[dict[str, Any]] = [
                {
                    "id": self._wire_id(call.id),
                    "type": "function",
                    "function": called_function(call),
                }
                for call in message.tool_calls
            ]
            for call, members in zip(calls, beside, strict=False):
                merge(call, self._returned(members))
            if not any(beside):
                merge(calls[0], self.traits.stand_in)
            item["tool_calls"] = calls
        return {**self.traits.filled, **item, **self._returned(kept)}

    def _returned(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {n: v for n, v in members.items() if n not in self.traits.not_returned}


def _images(message: Message) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": url}} for url in message.image_urls]


def _reasoning_text(delta: Mapping[str, Any]) -> str:
    """Return the reasoning in a piece of a message; the same text may come in several members."""
    values = [value for name, value in delta.items() if value and _REASONING.search(name)]
    texts = [value for value in values if isinstance(value, str)]
    nested = (_nested_text(value) for value in values if isinstance(value, list))
    return next(iter(texts), "") or next((text for text in nested if text), "")


def _nested_text(value: Any) -> str:
    """Return the text in a list of parts, whatever its members are called."""
    if isinstance(value, list):
        return "".join(map(_nested_text, value))
    if not isinstance(value, Mapping):
        return ""
    names = ("text", "thinking", "summary", "content")
    return "".join(
        part if isinstance(part, str) else _nested_text(part)
        for name in names
        if (part := value.get(name))
    )


@dataclass
class _Collected:
    """The part of a reply received so far."""

    origin: str
    id: str = ""
    model: str = ""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """The members that are not ours to rebuild."""
    parts: list[Any] = field(default_factory=list)
    """The content, if it came in parts."""
    open_calls: OpenCalls = field(default_factory=OpenCalls)
    finish: str = ""
    usage: object = None

    def take_choice(self, choice: Mapping[str, Any], delta: object) -> Iterator[StreamItem]:
        if isinstance(delta, Mapping):
            yield from self.take_delta(delta)
        self.finish = str(choice.get("finish_reason") or self.finish).lower()
        self.usage = choice.get("usage") or self.usage

    def take_delta(self, delta: Mapping[str, Any]) -> Iterator[StreamItem]:
        content = delta.get("content")
        parts = content if isinstance(content, list) else []
        merge({"parts": self.parts}, {"parts": parts})
        if text := text_of(content or ""):
            self.text.append(text)
            yield TextDelta(text)
        if refusal := delta.get("refusal"):
            self.refusal.append(text_of(refusal))
        thought = [part for part in parts if _is_thought(part)]
        if reasoning := _reasoning_text(delta) or _nested_text(thought):
            self.reasoning.append(reasoning)
            yield ReasoningDelta(reasoning)
        merge(
            self.kept,
            {n: v for n, v in delta.items() if n not in _NOT_KEPT and v not in (None, "", [], {})},
        )
        pieces = delta.get("tool_calls") or []
        pieces = [pieces] if isinstance(pieces, Mapping) else pieces
        if not pieces and (function := delta.get("function_call")):
            begun = function.get("name") or self.open_calls.calls
            pieces = [{"function": function}] if begun else []
        for name in self.open_calls.take(pieces):
            yield ToolCallStarted(name)
        if pieces:
            yield StillAlive()

    @property
    def has_begun(self) -> bool:
        return bool(self.text or self.reasoning or self.open_calls.calls)

    def reply(self, *, ended: bool) -> Reply:
        """Return the whole reply. A server that marks the end, and counts the tokens, may leave out
        why it stopped."""
        if not self.finish and not (ended and self.usage):
            raise broken_off()
        if self.finish in _FAILED:
            raise bad_response("the server could not finish the reply")
        if self.finish == _TOO_LONG and not self.text:
            raise LLMError(LLMErrorKind.CONTEXT_OVERFLOW, "the prompt is too long for the model")
        calls = self.open_calls.finished()
        usual = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        cut_off = FinishReason.LENGTH if _LENGTH.search(self.finish) else usual
        finish = _FINISH_REASONS.get(self.finish, cut_off)
        if self.refusal and not self.text:
            finish = FinishReason.REFUSAL
        text = "".join(self.text or self.refusal)
        return Reply(
            text=text,
            tool_calls=unique_calls(calls, "call_"),
            finish_reason=finish,
            usage=openai_usage(self.usage, "prompt", "completion"),
            model=self.model,
            response_id=self.id,
            reasoning="".join(self.reasoning),
            provider_data=self._provider_data(text),
        )

    def refused_reply(self, generation: str) -> Reply:
        """Return the reply whose last part the server refused and quotes."""
        return replace(
            refused_reply(generation, self.model),
            reasoning="".join(self.reasoning),
            provider_data=self._provider_data(""),
        )

    def _provider_data(self, text: str) -> ProviderData | None:
        """Return what goes back beside `text` and calls."""
        kept = {name: _sealed(value) for name, value in self.kept.items()}
        if any(_is_thought(part) for part in self.parts):
            kept["content"] = self.parts
        elif _END_OF_THOUGHT.search(text):
            # The model's own template knows what of it to show the model again.
            kept["content"] = text
        if beside := self.open_calls.beside():
            kept["tool_calls"] = beside
        return ProviderData(self.origin, (kept,)) if kept else None


def _is_first(choice: Mapping[str, Any]) -> bool:
    return choice.get("index") in (None, 0, "0")


def _is_thought(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type", "text") not in ("text", "output_text")


def _sealed(value: Any) -> Any:
    """Return a member without thinking that was cut off before its signature, as the proxies of
    Claude pass on: it would be refused."""
    if not isinstance(value, list):
        return value
    cut_off = [
        isinstance(part, Mapping) and part.get("type") == "thinking" and not part.get("signature")
        for part in value
    ]
    return [part for part, is_cut_off in zip(value, cut_off, strict=True) if not is_cut_off]


def _collect(chunks: Iterator[Mapping[str, Any]], collected: _Collected) -> Iterator[StreamItem]:
    answered = False
    for chunk in _unbroken(chunks, collected):
        if not chunk:
            answered = True
            yield collected.reply(ended=True)
            continue
        collected.id = collected.id or chunk.get("id") or ""
        collected.model = collected.model or chunk.get("model") or ""
        collected.usage = chunk.get("usage") or collected.usage
        for choice in chunk.get("choices") or []:
            if _is_first(choice):
                # Gateways that only seem to stream send a message, also after its pieces.
                whole = None if collected.has_begun else choice.get("message")
                yield from collected.take_choice(choice, choice.get("delta") or whole)
        yield StillAlive(idle=True)
    if not answered:
        yield collected.reply(ended=False)


def _unbroken(
    chunks: Iterator[Mapping[str, Any]], collected: _Collected
) -> Iterator[Mapping[str, Any]]:
    """Yield `chunks`. A connection that breaks behind the reason why the reply ended costs nothing
    of the reply."""
    try:
        yield from chunks
    except AgentError:
        raise
    except Exception:
        if not collected.finish:
            raise


def parse_reply(data: Mapping[str, Any], origin: str) -> Reply:
    first = next(filter(_is_first, data["choices"]), None)
    if first is None:
        raise bad_response("the server sent a reply without a message")
    collected = _Collected(origin, data.get("id") or "", data.get("model") or "")
    collected.usage = data.get("usage")
    for _ in collected.take_choice(first, first["message"]):
        pass
    return collected.reply(ended=True)


PROTOCOL = ChatCompletions
