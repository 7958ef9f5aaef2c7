"""Estimates tokens: one per four bytes at first, then by the ratio that the provider reports."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.memory.image_tokens import image_tokens
from agentcli.messages import Message, ToolSchema

BYTES_PER_TOKEN = 4.0
_LEAST_BYTES_PER_TOKEN = 2.0
_MOST_BYTES_PER_TOKEN = 8.0
_MESSAGE_OVERHEAD_BYTES = 16
_CALL_OVERHEAD_BYTES = 32


@dataclass(frozen=True, slots=True)
class Size:
    """Text in bytes of UTF-8; images in tokens, because no ratio of bytes holds for them."""

    text: int = 0
    images: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.text + other.text, self.images + other.images)


def size_of(message: Message, provider: str = "") -> Size:
    """Return how much of a request to `provider` the message takes."""
    text = text_bytes(message.content) + _MESSAGE_OVERHEAD_BYTES
    for call in message.tool_calls:
        text += len(call.name) + text_bytes(call.arguments) + _CALL_OVERHEAD_BYTES
    if message.provider_data is not None:
        text += sum(len(str(item)) for item in message.provider_data.items)
    return Size(text, sum(image_tokens(url, provider) for url in message.image_urls))


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def tools_size(tools: tuple[ToolSchema, ...]) -> Size:
    return Size(sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in tools))


class TokenEstimator:
    """Turns sizes into tokens by the ratio last reported, from two to eight bytes per token."""

    def __init__(self) -> None:
        self.bytes_per_token = BYTES_PER_TOKEN

    def tokens(self, size: Size) -> int:
        return int(size.text / self.bytes_per_token) + size.images

    def learn(self, size: Size, prompt_tokens: int) -> None:
        """Take in that the provider counted `prompt_tokens` for a request of `size`. A count that
        the images alone would reach is ignored: then our figure for images is wrong."""
        of_text = prompt_tokens - size.images
        if of_text > 0 and size.text > 0:
            ratio = size.text / of_text
            self.bytes_per_token = max(_LEAST_BYTES_PER_TOKEN, min(_MOST_BYTES_PER_TOKEN, ratio))
