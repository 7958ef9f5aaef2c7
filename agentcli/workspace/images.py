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
import binascii
import io
import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.messages import ImageLimits
from agentcli.workspace.names import size_text

if TYPE_CHECKING:
    from PIL import Image


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
class ImageFacts:
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


def inspected(data: bytes) -> ImageFacts:
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
    return ImageFacts(kind, width, height)


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


_MOST_PIXELS, _MOST_JPEG_PIXELS = 50_000_000, 150_000_000
"""Largest images that are scaled down. Decoding that many pixels takes up to 800 MB (WebP; PNG
470); a JPEG image is never decoded in full."""
_JPEG_QUALITIES = (90, 75, 50)
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)
_KEPT_MODES = frozenset({"L", "LA", "RGB", "RGBA"})

_OF_DAMAGE = (
    *(OSError, ValueError, SyntaxError, ArithmeticError, LookupError, EOFError),
    *(TypeError, AttributeError, struct.error),
)
"""What Pillow raises for images that are damaged in one way or another."""


@dataclass(frozen=True, slots=True)
class FittedImage:
    """An image as a data URL that a model takes. `note` tells the model what was changed, "" if
    nothing was."""

    url: str
    note: str = ""


def fit_image(data: bytes, limits: ImageLimits) -> FittedImage:
    """Fit the image `data` into `limits`. Raises ImageFault if no provider would take it."""
    found = inspected(data)
    by_side = limits.side / max(found.width, found.height)
    factor = min(1.0, by_side, sqrt(limits.pixels / (found.width * found.height)))
    if factor == 1 and len(data) <= MAX_BYTES and found.kind in KINDS:
        return FittedImage(as_url(found.kind, data))
    most = _MOST_JPEG_PIXELS if found.kind == "jpeg" else _MOST_PIXELS
    if found.width * found.height > most:
        raise ImageFault(
            f"has {found.width}x{found.height} pixels, more than the {most // 1_000_000} million "
            "that can be scaled down: make it smaller first"
        )
    try:
        image, before, pages = _scaled(data, found.kind, factor)
        kind, encoded = _encoded(image, found.kind)
    except _OF_DAMAGE as error:
        raise ImageFault(f"is damaged: a {found.kind} image that can't be decoded") from error
    notes = [f"page 1 of {pages}"] if pages > 1 else []
    if before != image.size:
        notes.append(_scale_note(before, image.size))
    return FittedImage(as_url(kind, encoded), "; ".join(notes))


def fit_data_url(url: str, limits: ImageLimits) -> FittedImage:
    """Fit the image in a data URL into `limits`; return any other URL unchanged. Raises
    ImageFault."""
    head, comma, text = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        return FittedImage(url)
    try:
        return fit_image(base64.b64decode(text, validate=True), limits)
    except binascii.Error as error:
        raise ImageFault("is damaged: not base64") from error


def fit_message_images(
    text: str, urls: Sequence[str], limits: ImageLimits
) -> tuple[str, tuple[str, ...]]:
    """Fit a message's images into `limits`; return its text, with notes on what was changed, and
    its images. Raises ImageFault, here as a whole sentence, also if they are too large together."""
    images: list[str] = []
    notes: list[str] = []
    for number, url in enumerate(urls, 1):
        which = image_name(number, len(urls))
        try:
            image = fit_data_url(url, limits)
        except ImageFault as fault:
            raise ImageFault(f"{which} {fault}") from fault
        images.append(image.url)
        notes += [f"[{which}: {image.note}]"] if image.note else []
    size = sum(map(len, images))
    if size > MAX_TOGETHER:
        raise ImageFault(
            f"the images are {size_text(size)} as they are sent, more than the "
            f"{size_text(MAX_TOGETHER)} that go into one message"
        )
    return "\n\n".join(filter(None, [text, "\n".join(notes)])), tuple(images)


def image_name(number: int, count: int) -> str:
    """Return what to call the image with this `number`, from 1, among `count`."""
    return f"image {number}" if count > 1 else "the image"


def _scaled(data: bytes, kind: str, factor: float) -> tuple[Image.Image, tuple[int, int], int]:
    """Return the image upright and scaled by `factor`, its original upright size, and the number of
    pages, of which it is the first."""
    from PIL import Image, ImageOps

    # Pillow's own limit is for images of unknown size; the caller has checked the size.
    Image.MAX_IMAGE_PIXELS = None
    image = Image.open(io.BytesIO(data), formats=[kind])
    stored, pages = image.size, getattr(image, "n_frames", 1)
    upright = stored[::-1] if image.getexif().get(_ORIENTATION) in _TURNED else stored
    # A JPEG image is decoded at a half, a quarter or an eighth of its size if that suffices.
    image.draft("RGB", (_side(stored[0], factor), _side(stored[1], factor)))
    ImageOps.exif_transpose(image, in_place=True)
    kept: Image.Image = image
    if image.mode not in _KEPT_MODES:
        kept = image.convert("RGBA" if image.has_transparency_data else "RGB")
    size = (_side(upright[0], factor), _side(upright[1], factor))
    if kept.size != size:
        kept = kept.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    return kept, upright, pages


def _side(length: int, factor: float) -> int:
    return max(1, round(length * factor))


def _encoded(image: Image.Image, kind: str) -> tuple[str, bytes]:
    """Encode as PNG, which keeps text sharp, or as JPEG if it was one or the PNG is too large."""
    if kind != "jpeg":
        out = io.BytesIO()
        image.save(out, "PNG")
        if out.tell() <= MAX_BYTES:
            return "png", out.getvalue()
    opaque = image
    if image.mode in ("LA", "RGBA"):
        from PIL import Image

        opaque = Image.new("RGB", image.size, "white")
        opaque.paste(image, mask=image.getchannel("A"))
    for quality in _JPEG_QUALITIES:
        out = io.BytesIO()
        opaque.save(out, "JPEG", quality=quality)
        if out.tell() <= MAX_BYTES:
            break
    return "jpeg", out.getvalue()


def _scale_note(before: tuple[int, int], now: tuple[int, int]) -> str:
    across, down = (f"{then / today:.4g}" for then, today in zip(before, now, strict=True))
    factors = across if across == down else f"{across} (x) and {down} (y)"
    return (
        f"{before[0]}x{before[1]} pixels, shown scaled down to {now[0]}x{now[1]}; multiply "
        f"coordinates by {factors} to get those in the original"
    )
