"""What both wire formats of OpenAI share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from agentcli.llm.sdk import SDKProtocol
from agentcli.llm.wire_protocol import dump, token_count, wire_arguments, wire_name
from agentcli.messages import Message, Request, Role, ToolCall, ToolSchema, Usage


class OpenAIProtocol(SDKProtocol):
    sdk, client = "openai", "OpenAI"

    @abstractmethod
    def _user(self, blocks: bytes, *, after_tool: bool) -> bytes:
        """Return a message of the user with these content blocks, with what must stand before it
        if it follows the result of a tool."""

    @abstractmethod
    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        """Return how a tool is declared."""

    def _tools(self, request: Request) -> dict[str, Any]:
        """Return the members of the body that are about tools."""
        if not request.tools:
            return {}
        members: dict[str, Any] = {"tools": [self._tool(tool) for tool in request.tools]}
        if self._chooses(request):
            members["tool_choice"] = request.tool_choice.value
        return members

    def _following(self, message: Message) -> list[bytes]:
        """Return the content blocks of a user message that has to follow `message`."""
        return []

    def _user_roles(self) -> Sequence[Role]:
        """Return whose messages are sent as the user's, which the system text may have to be."""
        as_user = self.traits.system_role == "user"
        return (Role.USER, Role.SYSTEM) if as_user else (Role.USER,)

    def _merged(self, messages: Sequence[Message]) -> bytes:
        """Return a JSON array of `messages`; consecutive user messages become one."""
        out: list[bytes] = []
        blocks: list[bytes] = []
        after_tool = False
        user = self._user_roles()
        for message, part in zip(messages, self._parts.of(messages), strict=True):
            if message.role in user:
                blocks.append(part)
            elif part:
                if blocks and message.role is not Role.TOOL:
                    out.append(self._user(b",".join(blocks), after_tool=after_tool))
                    blocks = []
                out.append(part)
                after_tool = message.role is Role.TOOL
                if message.image_urls:
                    blocks += self._following(self._visible(message))
        if blocks:
            out.append(self._user(b",".join(blocks), after_tool=after_tool))
        return b"[" + b",".join(out) + b"]"


def called_function(call: ToolCall) -> dict[str, str]:
    arguments = dump(wire_arguments(call.arguments)).decode()
    return {"name": wire_name(call.name), "arguments": arguments}


def openai_usage(usage: Any, prompt: str, completion: str) -> Usage:
    """Read a reply's usage; `prompt` and `completion` are the first words of its fields' names."""
    return Usage(
        prompt_tokens=token_count(usage, f"{prompt}_tokens"),
        completion_tokens=token_count(usage, f"{completion}_tokens"),
        cache_read_tokens=token_count(usage, f"{prompt}_tokens_details", "cached_tokens"),
        reasoning_tokens=token_count(usage, f"{completion}_tokens_details", "reasoning_tokens"),
    )
