"""Scales down images that are larger than a model can see, and tells the model by how much: it has
to know that to name a place in the image, such as a button to click.

An image that fits is passed on byte for byte without a decoder. Pillow does the rest, and converts
formats that no model takes to PNG.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from agentcli.messages import ImageLimits
from agentcli.workspace.images import KINDS, MAX_BYTES, MAX_TOGETHER, ImageFault, as_url, inspected
from agentcli.workspace.names import size_text

if TYPE_CHECKING:
    from PIL import Image

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
    factor = _factor(found.width, found.height, limits)
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


def _factor(width: int, height: int, limits: ImageLimits) -> float:
    """Return the factor, above 0 and at most 1, by which to multiply both sides."""
    by_side = limits.side / max(width, height)
    return min(1.0, by_side, sqrt(limits.pixels / (width * height)))


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
