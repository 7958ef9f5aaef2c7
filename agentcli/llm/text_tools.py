"""Tool calls as text, for models or servers without native tool calls.

The system text describes the tools, a reply calls them with `<tool_call>` around a JSON object, and
results come as user messages. The provider underneath sees a conversation without tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentcli.errors import LLMError
from agentcli.events.progress import TextDelta, ToolCallStarted
from agentcli.llm.wire_protocol import StillAlive, StreamItem, WireProtocol, tool_call, unique_calls
from agentcli.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    ToolCall,
    ToolSchema,
    common_start,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_INSTRUCTIONS = f"""# Tools

You act by calling tools. To call one, write its name and arguments as a JSON object between tags:

{OPEN}
{{"name": "TOOL", "arguments": {{"ARGUMENT": "VALUE"}}}}
{CLOSE}

Several calls may follow each other. Stop after the last one: what came of each is told to you in
the next message. Never write a result yourself. The tools, each with the JSON Schema of its
arguments:
"""
_DECODER = json.JSONDecoder(strict=False)
_FENCE = re.compile(r"\s*(?:```\w*\s*)?")
_TAG = re.compile(f"{OPEN}|{CLOSE}")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]{1,64})"')


class TextTools:
    """Wraps a protocol and sends tool calls as text instead of in its own form."""

    def __init__(self, protocol: WireProtocol) -> None:
        self._protocol = protocol
        self._tools: tuple[ToolSchema, ...] = ()
        self._given: list[Message] = []
        self._converted: list[Message] = []
        self._names: dict[str, str] = {}

    def connect(self) -> None:
        self._protocol.connect()

    def answer(self, request: Request) -> Iterator[StreamItem]:
        answer = self._protocol.answer(self._plain(request))
        if not request.tools:
            yield from answer
            return
        shown = _Shown()
        for item in answer:
            if isinstance(item, TextDelta):
                yield from shown.take(item.text)
                yield StillAlive()
            elif isinstance(item, Reply):
                yield from shown.rest()
                yield with_calls(item)
            else:
                yield item

    def body_bytes(self, request: Request) -> int:
        return self._protocol.body_bytes(self._plain(request))

    def translate(self, error: Exception) -> LLMError:
        return self._protocol.translate(error)

    def models(self) -> list[str]:
        return self._protocol.models()

    def abort(self) -> None:
        self._protocol.abort()

    def _plain(self, request: Request) -> Request:
        return replace(request, messages=self._in_text(request), tools=())

    def _in_text(self, request: Request) -> list[Message]:
        """Return the conversation without tool calls. A converted message stays the same object, so
        that the layers below need not process it again."""
        if request.tools != self._tools:
            self._given, self._tools = [], request.tools
        same = common_start(self._given, request.messages)
        self._given[same:] = request.messages[same:]
        self._converted[same:] = [
            self._as_plain_text(message) for message in request.messages[same:]
        ]
        return list(self._converted)

    def _as_plain_text(self, message: Message) -> Message:
        if message.role is Role.SYSTEM and self._tools:
            return Message.system_message(f"{message.content}\n\n{tool_instructions(self._tools)}")
        if message.role is Role.TOOL:
            name = self._names.get(message.tool_call_id or "", "")
            text = f'<tool_result name="{name}">\n{message.content}\n</tool_result>'
            return Message.user_message(text, message.image_urls)
        if message.tool_calls:
            self._names |= {call.id: call.name for call in message.tool_calls}
            said = [message.content] if message.content.strip() else []
            return Message.assistant_message(
                "\n".join([*said, *map(tool_call_text, message.tool_calls)])
            )
        return message


def tool_instructions(tools: Sequence[ToolSchema]) -> str:
    """Return the instructions for calling `tools`, for the system text."""
    lines = []
    for tool in tools:
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"## {tool.name}\n{tool.description}\n{schema}")
    return _INSTRUCTIONS + "\n" + "\n\n".join(lines)


def tool_call_text(call: ToolCall) -> str:
    """Return a call as the model writes it; invalid arguments are kept as they are."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = call.arguments
    body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
    return f"{OPEN}\n{body}\n{CLOSE}"


def with_calls(reply: Reply) -> Reply:
    """Add the calls in the text of `reply` to it. A reply that was cut off gets none."""
    text, calls = parse(reply.text)
    if not calls:
        return reply
    if reply.finish_reason is not FinishReason.STOP:
        return replace(reply, text=text)
    return replace(
        reply,
        text=text,
        tool_calls=unique_calls(calls, "call_"),
        finish_reason=FinishReason.TOOL_CALLS,
        # Provider data gives the order of a reply's parts, which did not include these calls.
        provider_data=None,
    )


def parse(text: str) -> tuple[str, list[ToolCall]]:
    """Return the text around the calls in `text`, and the calls, without ids. A call with invalid
    JSON has that text as its arguments, and its name if one can be made out."""
    said: list[str] = []
    calls: list[ToolCall] = []
    position = 0
    while (start := _next_call(text, position)) >= 0:
        said.append(text[position:start])
        found, position = _read_call(text, start + len(OPEN))
        calls += found
    said.append(text[position:])
    kept = "\n\n".join(part.strip() for part in said if part.strip()) if calls else text
    return kept, calls


def _next_call(text: str, position: int) -> int:
    """Return the position of the next opening tag that is not quoted in backticks."""
    start = text.find(OPEN, position)
    while start > 0 and text[start - 1] == "`":
        start = text.find(OPEN, start + 1)
    return start


def _read_call(text: str, begin: int) -> tuple[list[ToolCall], int]:
    """Return the calls after an opening tag, and where the text continues. The JSON determines
    where a call ends, as it may contain a tag itself; a closing tag may be missing."""
    fence = _FENCE.match(text, begin)
    try:
        value, end = _DECODER.raw_decode(text, fence.end() if fence else begin)
    except (ValueError, RecursionError):
        value, end = None, begin
    calls = [_call(one) for one in (value if isinstance(value, list) else [value])]
    good = [call for call in calls if call is not None]
    broken = not calls or len(good) < len(calls)
    tag = _TAG.search(text, end)
    stop = tag.start() if tag else len(text) if broken else end
    after = tag.end() if tag and tag[0] == CLOSE else stop
    if not broken:
        return good, after
    raw = text[begin:stop].strip()
    name = _NAME.search(raw)
    return [ToolCall("", name[1] if name else "", raw)], after


def _call(value: Any) -> ToolCall | None:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return None
    return tool_call("", value["name"], value.get("arguments", value.get("parameters", {})))


class _Shown:
    """A stream's text as shown to the user: without the calls, of which only the name is told."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""
        self._inside = False
        self._named = False

    def take(self, text: str) -> Iterator[StreamItem]:
        self._held += text
        while True:
            if self._inside:
                if not self._named and (name := _NAME.search(self._held)):
                    self._named = True
                    yield ToolCallStarted(name[1])
                _, closed, rest = self._held.partition(CLOSE)
                if not closed:
                    return
                self._held, self._inside = rest, False
            start = _next_call(self._last + self._held, len(self._last))
            if start < 0:
                yield from self._show(len(self._held) - _started(self._held))
                return
            yield from self._show(start - len(self._last))
            self._held = self._held[len(OPEN) :]
            self._inside, self._named = True, False

    def rest(self) -> Iterator[StreamItem]:
        """Yield held-back text that turned out not to be a call."""
        if not self._inside:
            yield from self._show(len(self._held))

    def _show(self, length: int) -> Iterator[StreamItem]:
        shown, self._held = self._held[:length], self._held[length:]
        self._last = shown[-1:] or self._last
        if shown:
            yield TextDelta(shown)


def _started(text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of a call."""
    lengths = range(min(len(OPEN) - 1, len(text)), 0, -1)
    return next((length for length in lengths if OPEN.startswith(text[-length:])), 0)
