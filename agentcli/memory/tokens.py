"""How many tokens messages are: four bytes each at first, then as the provider reports."""

from __future__ import annotations

from agentcli.messages import Message, ToolSchema

BYTES_PER_TOKEN = 4.0
IMAGE_TOKENS = 1_500
_MESSAGE_OVERHEAD_BYTES = 16


def message_bytes(message: Message) -> int:
    size = len(message.content.encode(errors="replace")) + _MESSAGE_OVERHEAD_BYTES
    for call in message.tool_calls:
        size += len(call.name) + len(call.arguments.encode(errors="replace")) + 32
    if message.provider_data is not None:
        size += sum(len(str(item)) for item in message.provider_data.items)
    return size + int(len(message.image_urls) * IMAGE_TOKENS * BYTES_PER_TOKEN)


def tools_bytes(tools: tuple[ToolSchema, ...]) -> int:
    return sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in tools)


class TokenEstimator:
    """Turns bytes into tokens by the ratio last reported, never below two bytes a token."""

    def __init__(self) -> None:
        self._bytes_per_token = BYTES_PER_TOKEN

    def tokens(self, size: int) -> int:
        return int(size / self._bytes_per_token)

    def learn(self, size: int, prompt_tokens: int) -> None:
        """The provider counted `prompt_tokens` for a request of `size` bytes."""
        if prompt_tokens > 0 and size > 0:
            self._bytes_per_token = max(2.0, min(8.0, size / prompt_tokens))
