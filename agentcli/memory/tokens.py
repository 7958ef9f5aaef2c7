"""Estimates tokens: one per four bytes of plain text at first, then by the ratio that the provider
reports.

Bytes of which tokenizers make more tokens count for more. Llama 3 and OpenAI's `o200k_base` make a
token of up to three digits, Qwen and Gemma one of each; and of Chinese or Japanese text most make
about a token of each character, which has three bytes.

The figures for images are the providers' own: Anthropic counts width x height / 750 after scaling
to 1,568 pixels on the longer side; OpenAI 85, plus 170 for each tile of 512 after scaling to 2,048
and then to 768 on the shorter side; Gemini 258 for each tile of 768, or for a small image as a
whole.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from math import ceil

from agentcli.messages import Message, ToolSchema

UNKNOWN_IMAGE_TOKENS = 1_500
"""Used if the size of an image can't be read, or the provider does not say how it counts."""
_HEAD_CHARS = 400_000
"""How much of the base64 to read: a photo's size may come after a preview of some 64 kB and a
colour profile."""
_PRE_SIZE_MARKERS = frozenset({0xC4, 0xC8, 0xCC})
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


def image_tokens(url: str, provider: str = "") -> int:
    """Return the tokens of the image in a data URL at `provider`; a guess for other URLs."""
    size = _size(url)
    if size is None:
        return UNKNOWN_IMAGE_TOKENS
    width, height = size
    if provider == "anthropic":
        scale = min(1.0, 1_568 / max(size))
        return min(ceil(width * scale * height * scale / 750), 4_784)
    if provider in ("openai", "openai-chat"):
        scale = min(1.0, 2_048 / max(size))
        scale *= min(1.0, 768 / (min(size) * scale))
        return 85 + 170 * ceil(width * scale / 512) * ceil(height * scale / 512)
    if provider == "gemini":
        if max(size) <= 384:
            return 258
        return 258 * ceil(width / 768) * ceil(height / 768)
    return UNKNOWN_IMAGE_TOKENS


def _size(url: str) -> tuple[int, int] | None:
    """Return width and height in pixels; None if they can't be determined."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    data = data[:_HEAD_CHARS]
    try:
        size = _size_of(base64.b64decode(data[: len(data) // 4 * 4]))
    except (ValueError, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _size_of(data: bytes) -> tuple[int, int] | None:
    if data.startswith(b"\x89PNG"):
        return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if data.startswith(b"GIF8"):
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if data.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    if data[8:16] == b"WEBPVP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        return width, int.from_bytes(data[27:30], "little") + 1
    if data[8:16] == b"WEBPVP8 ":
        mask = 0x3FFF
        width = int.from_bytes(data[26:28], "little") & mask
        return width, int.from_bytes(data[28:30], "little") & mask
    if data[8:16] == b"WEBPVP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _PRE_SIZE_MARKERS:
            height = int.from_bytes(data[at + 5 : at + 7])
            return int.from_bytes(data[at + 7 : at + 9]), height
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return None


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
