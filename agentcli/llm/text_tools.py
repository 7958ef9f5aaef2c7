"""Thinking and tool calls that a model writes into its text.

They are taken out of each reply, wherever the tools were told: natively, or in the system text for
a model or server that can't take them. Then a reply calls them with `<tool_call>` around a JSON
object, results come as user messages, and the provider underneath sees a conversation without
tools.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from agentcli.errors import LLMError
from agentcli.events.progress import Notice, TextDelta, ToolCallStarted
from agentcli.events.texts import json_value
from agentcli.llm.wire_protocol import PerMessage, StillAlive, StreamItem, WireProtocol
from agentcli.messages import Message, Reply, Request, Role, ToolCall, ToolSchema
from agentcli.settings import DIALECTS

if TYPE_CHECKING:
    from agentcli.llm.healing import Remedy

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


class TextTools:
    """Wraps a protocol and reads what its replies have in their text: thinking, and calls in one of
    `dialects`. With `tell_in_text` the tools are described in the system text."""

    def __init__(
        self, protocol: WireProtocol, dialects: Collection[str], *, tell_in_text: bool = False
    ) -> None:
        self._protocol = protocol
        self._dialects = frozenset(dialects)
        self._tell_in_text = tell_in_text
        self._told_dialect = False
        self._prefilled = ""
        """What ends the thinking that the chat template begins, once a reply has shown that."""
        self._tools: tuple[ToolSchema, ...] = ()
        self._in_text = PerMessage(self._as_plain_text)
        self._names: dict[str, str] = {}

    def connect(self) -> None:
        self._protocol.connect()

    def answer(self, request: Request) -> Iterator[StreamItem]:
        items = self._protocol.answer(self._plain(request))
        for item in items:
            if _must_be_read(item):
                yield from self._read(request, chain([item], items))
            else:
                yield item

    def _read(self, request: Request, items: Iterable[StreamItem]) -> Iterator[StreamItem]:
        from agentcli.llm.reply_text import Shown, understood, whole_name

        tools = {tool.name: tool.parameters for tool in request.tools}
        dialects = self._dialects if tools else frozenset()
        shown = Shown(tools, dialects, self._prefilled)
        for item in items:
            if isinstance(item, TextDelta):
                yield from shown.take(item.text)
                yield StillAlive()
            elif isinstance(item, Reply):
                reply, found, thought = understood(item, tools, dialects)
                self._prefilled = thought.only_mark or self._prefilled
                yield from shown.rest(found)
                as_declared = found.calls and not self._tell_in_text
                if as_declared and not self._told_dialect:
                    self._told_dialect = True
                    yield Notice(
                        f"the server passes tool calls on as text ({found.dialect}); they are run "
                        "all the same, but a parser for this model's calls in the server is more "
                        "reliable"
                    )
                yield self._protocol.read_back(reply) if as_declared else reply
            elif isinstance(item, ToolCallStarted):
                yield ToolCallStarted(whole_name(item.name, tools))
            else:
                yield item

    def body_bytes(self, request: Request) -> int:
        return self._protocol.body_bytes(self._plain(request))

    def translate(self, error: Exception) -> LLMError:
        return self._protocol.translate(error)

    def models(self) -> list[str]:
        return self._protocol.models()

    def remedy(self, error: LLMError, request: Request) -> Remedy | None:
        return self._protocol.remedy(error, self._plain(request))

    def read_back(self, reply: Reply) -> Reply:
        return self._protocol.read_back(reply)

    def learn(self, changes: Mapping[str, Any]) -> None:
        self._protocol.learn(changes)
        if changes.get("tools") == "text":
            self._tell_in_text, self._dialects = True, frozenset(DIALECTS)

    def abort(self) -> None:
        self._protocol.abort()

    def _plain(self, request: Request) -> Request:
        if not self._tell_in_text:
            return request
        if request.tools != self._tools:
            self._tools = request.tools
            self._in_text.forget()
        # A message stays the same object, so that the layers below need not process it again.
        return replace(request, messages=[*self._in_text.of(request.messages)], tools=())

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


def _must_be_read(item: StreamItem) -> bool:
    """Whether `item` has text, which may have calls and thinking, or the name of a call with a mark
    in it. Most replies that call tools have neither."""
    if isinstance(item, Reply):
        is_named = all("<|" not in call.name for call in item.tool_calls)
        return bool(item.text) or not item.tool_calls or not is_named
    return isinstance(item, TextDelta) or (isinstance(item, ToolCallStarted) and "<|" in item.name)


def tool_instructions(tools: Sequence[ToolSchema]) -> str:
    """Return the instructions for calling `tools`, for the system text."""
    lines = []
    for tool in tools:
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"## {tool.name}\n{tool.description}\n{schema}")
    return _INSTRUCTIONS + "\n" + "\n\n".join(lines)


def tool_call_text(call: ToolCall) -> str:
    """Return a call as the model writes it; invalid arguments are kept as they are."""
    arguments = json_value(call.arguments or "{}", call.arguments)
    body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
    return f"{OPEN}\n{body}\n{CLOSE}"
