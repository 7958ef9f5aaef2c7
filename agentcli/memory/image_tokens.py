"""How many tokens an image takes, by its size and provider.

The figures are the providers' own: Anthropic counts width x height / 750 after scaling to 1,568
pixels on the longer side; OpenAI 85, plus 170 for each tile of 512 after scaling to 2,048 and then
to 768 on the shorter side; Gemini 258 for each tile of 768, or for a small image as a whole.
"""

from __future__ import annotations

import base64
from math import ceil

UNKNOWN_IMAGE_TOKENS = 1_500
"""Used if the size of an image can't be read, or the provider does not say how it counts."""
_HEAD_CHARS = 400_000
"""How much of the base64 to read: a photo's size may come after a preview of some 64 kB and a
colour profile."""
_PRE_SIZE_MARKERS = frozenset({0xC4, 0xC8, 0xCC})


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
