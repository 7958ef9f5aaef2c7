"""Estimates tokens: one per four bytes of plain text at first, then by the ratio that the provider
reports.

Bytes of which tokenizers make more tokens count for more. Llama 3 and OpenAI's `o200k_base` make a
token of up to three digits, Qwen and Gemma one of each; and of Chinese or Japanese text most make
about a token of each character, which has three bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.memory.image_tokens import image_tokens
from agentcli.messages import Message, ToolSchema

BYTES_PER_TOKEN = 4.0
_LEAST_BYTES_PER_TOKEN = 1.0
"""Byte-level tokenizers never make more than one token of a byte."""
_MOST_BYTES_PER_TOKEN = 8.0
_FEWEST_TOLD = 16.0
"""Bytes per token above which a count is not of the whole prompt."""
_GROWN = 1.05
_DIGITS = b"0123456789"
_MESSAGE_OVERHEAD_BYTES = 16
_CALL_OVERHEAD_BYTES = 32


@dataclass(frozen=True, slots=True)
class Size:
    """Text in weighted bytes of UTF-8 (see `text_bytes`); images in tokens, because no ratio of
    bytes holds for them."""

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
    """Return the bytes of `text` in UTF-8, with three for a digit, and for a character beyond ASCII
    half as many again as its further bytes."""
    data = text.encode(errors="replace")
    digits = len(data) - len(data.translate(None, _DIGITS))
    return len(data) + 2 * digits + (len(data) - len(text)) // 2


def tools_size(tools: tuple[ToolSchema, ...]) -> Size:
    return Size(sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in tools))


class TokenEstimator:
    """Turns sizes into tokens by the ratio last reported, of at most eight bytes per token."""

    def __init__(self) -> None:
        self.bytes_per_token = BYTES_PER_TOKEN
        self.is_counted = False
        self._told = (0, 0)

    def tokens(self, size: Size) -> int:
        return int(size.text / self.bytes_per_token) + size.images

    def learn(self, size: Size, prompt_tokens: int) -> bool:
        """Take in that the provider counted `prompt_tokens` for a request of `size`, and return
        whether that can be. Ignored are a count that the images alone would reach, for then our
        figure for images is wrong; one that no tokenizer comes to; and one that did not grow with
        the prompt, as of a server that cuts what it is sent."""
        of_text = prompt_tokens - size.images
        if of_text <= 0 or size.text <= 0:
            return False
        text_before, tokens_before = self._told
        self._told = size.text, prompt_tokens
        ratio = size.text / of_text
        was_cut = size.text > text_before * _GROWN and 0 < prompt_tokens <= tokens_before
        if was_cut or not _LEAST_BYTES_PER_TOKEN <= ratio <= _FEWEST_TOLD:
            return False
        self.bytes_per_token = min(_MOST_BYTES_PER_TOKEN, ratio)
        self.is_counted = True
        return True

    def learn_least(self, size: Size, prompt_tokens: int) -> None:
        """Take in that a request of `size` has at least so many tokens."""
        if prompt_tokens > self.tokens(size):
            of_text = max(prompt_tokens - size.images, 1)
            self.bytes_per_token = max(size.text / of_text, _LEAST_BYTES_PER_TOKEN)
