"""Identifies images by their bytes, and checks that a model can take them.

A provider refuses a whole request because of one bad image, and an image once in a session is part
of all its later requests. So we accept only what every provider takes. The limits are those of the
strictest one: 5 MB as base64, and no animations; larger images are made smaller (`scaling.py`).
Pillow would be slower (19 ms for a JPEG of 1.3 MB; this takes 1.3 ms), and its fast checks accept
truncated images. It is used for formats that no model takes (BMP, TIFF), to convert them to PNG.

Formats: https://www.w3.org/TR/png-3/, https://www.w3.org/Graphics/JPEG/itu-t81.pdf,
https://www.w3.org/Graphics/GIF/spec-gif89a.txt, https://www.rfc-editor.org/rfc/rfc9649
"""

from __future__ import annotations

import base64
import io
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcli.workspace.names import size_text

MAX_BYTES = 3_750_000
"""Largest image sent, in bytes: 5 MB as base64."""
MAX_TOGETHER = 16_000_000
"""Limit for all images of one message, in bytes of base64: half of the smallest provider's request
limit."""
LARGEST_FILE = 50_000_000
"""Largest file that can be made smaller, in bytes."""

_GIF_FRAME, _GIF_EXTENSION, _GIF_END = 0x2C, 0x21, 0x3B
_JPEG_SCAN, _JPEG_END = 0xDA, 0xD9
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WEBP_ANIMATED = 0x02

Size = tuple[int, int]
KINDS = frozenset(("png", "jpeg", "gif", "webp"))
"""The formats that models take."""
_BMP_HEADERS = frozenset((12, 40, 52, 56, 64, 108, 124))
"""Header sizes of the BMP versions; needed because a text may begin with "BM" too."""
NEEDED_BYTES = 18
"""How many bytes it takes to identify an image."""


class ImageFault(ValueError):
    """An image can't go to a model. The message continues after the image's name ("is cut off:
    …")."""


@dataclass(frozen=True, slots=True)
class Image:
    """A valid image. `kind` is one of KINDS, or a format that `scaling` converts to one; `width`
    and `height` are in pixels."""

    kind: str
    width: int
    height: int


def kind_of(data: bytes) -> str | None:
    """Return png, jpeg, gif, webp, bmp or tiff by the first bytes of `data`, else None."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "bmp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def inspected(data: bytes) -> Image:
    """Identify the image `data`. Raises ImageFault if a provider would refuse it whatever its
    size."""
    kind = kind_of(data)
    if kind is None:
        raise ImageFault(
            f"is not an image that models take (PNG, JPEG, GIF, WebP, BMP, TIFF): {_seen(data)}"
        )
    try:
        size_of = _SIZE_OF.get(kind)
        width, height = size_of(data) if size_of is not None else _by_pillow(data, kind)
    except (struct.error, IndexError) as error:
        raise ImageFault(_cut_off(kind)) from error
    if not (width and height):
        raise ImageFault(f"is damaged: a {kind} image of {width}x{height} pixels")
    return Image(kind, width, height)


def as_url(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def data_url(data: bytes) -> str:
    """Return a valid image of any size as a data URL. Raises ImageFault."""
    return as_url(inspected(data).kind, data)


def file_url(path: Path) -> str:
    """Return an image file as a `data_url`. Raises ImageFault, OSError."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise ImageFault("is not a file")
    if info.st_size > LARGEST_FILE:
        raise ImageFault(
            f"has {size_text(info.st_size)}, more than the {size_text(LARGEST_FILE)} that can be "
            "made smaller"
        )
    return data_url(path.read_bytes())


def _seen(data: bytes) -> str:
    if not data:
        return "it is empty"
    start = data[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "it holds a web page"
    return "its bytes are those of something else"


def _cut_off(kind: str) -> str:
    return f"is cut off: a {kind} image without its end"


def _png(data: bytes) -> Size:
    size = None
    has_pixels = False
    for name, start, length in _png_chunks(data):
        if size is None:
            if name != b"IHDR" or length != 13:
                raise ImageFault("is damaged: a png image without its header")
            size = struct.unpack_from(">II", data, start)
        has_pixels = has_pixels or name == b"IDAT"
        if name == b"IEND":
            if not has_pixels:
                raise ImageFault("is damaged: a png image without pixels")
            return size
    raise ImageFault(_cut_off("png"))


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, position and length of each chunk. Verifies the checksums of the critical chunks,
    which every decoder reads."""
    at = 8
    view = memoryview(data)
    while at < len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if name[:1].isupper() and zlib.crc32(view[at + 4 : at + 8 + length]) != checksum:
            raise ImageFault("is damaged: a png image with a wrong checksum")
        yield name, at + 8, length
        at += 12 + length


def _jpeg(data: bytes) -> Size:
    size = None
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ImageFault("is damaged: a jpeg image with a broken segment")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = width, height
        if marker == _JPEG_SCAN:
            break
        if marker == _JPEG_END or length < 2:
            raise ImageFault("is damaged: a jpeg image without pixels")
        at += 2 + length
    if size is None:
        raise ImageFault("is damaged: a jpeg image without its size")
    if data.find(bytes([0xFF, _JPEG_END]), at + 2 + length) < 0:
        raise ImageFault(_cut_off("jpeg"))
    return size


def _gif(data: bytes) -> Size:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _gif_colours(flags)
    frames = 0
    while data[at] != _GIF_END:
        if data[at] == _GIF_FRAME:
            frames += 1
            at += 11 + _gif_colours(data[at + 9])
        elif data[at] == _GIF_EXTENSION:
            at += 2
        else:
            raise ImageFault("is damaged: a gif image with a broken block")
        while data[at]:
            at += 1 + data[at]
        at += 1
    if frames > 1:
        raise ImageFault(_moving("gif"))
    if not frames:
        raise ImageFault("is damaged: a gif image without pixels")
    return width, height


def _gif_colours(flags: int) -> int:
    """Return the size in bytes of the colour table announced by `flags`."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(data: bytes) -> Size:
    (length,) = struct.unpack_from("<I", data, 4)
    if length + 8 > len(data):
        raise ImageFault(_cut_off("webp"))
    name = data[12:16]
    if name == b"VP8X":
        if data[20] & _WEBP_ANIMATED:
            raise ImageFault(_moving("webp"))
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        return width, height
    if name == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    raise ImageFault("is damaged: a webp image without its header")


def _by_pillow(data: bytes, kind: str) -> Size:
    from PIL import Image

    # Pillow's own limit is meant for decoding; this reads only the header.
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(data), formats=[kind]) as image:
            return image.size
    except (OSError, ValueError, SyntaxError, ArithmeticError, LookupError) as error:
        raise ImageFault(f"is damaged: a {kind} image without its header") from error


def _moving(kind: str) -> str:
    return f"is an animated {kind} image, and models take still ones: save one frame of it first"


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
)
_SIZE_OF = {"png": _png, "jpeg": _jpeg, "gif": _gif, "webp": _webp}
