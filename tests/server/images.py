"""Images in a request: what the providers refuse of them, in their words."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Any

_KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
_MAX_BASE64 = 5 * 1024 * 1024
_MAX_SIDE = 8_000
_MANY = 20
_MAX_SIDE_OF_MANY = 2_000
_MOST = 100


def openai_images(body: object, place: str = "") -> Iterator[str]:
    """The faults of all images in an OpenAI body whose fields have the right types."""
    for where, url in _image_urls(body, place):
        if url.startswith("data:"):
            kind, data = _decoded(url.partition("base64,")[2])
            if kind is None or url.partition(";")[0] != f"data:image/{kind}":
                yield (
                    f"Invalid '{where}': You uploaded an unsupported image. Please make sure your "
                    "image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
                )
            elif not all(_size(kind, data)) or _frames(kind, data) > 1:
                yield (
                    f"Invalid '{where}': The image data you provided does not represent a valid "
                    "image."
                )


def _image_urls(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Each image's address with its place; Chat Completions has it in an object of its own."""
    for where, item in _items(value, place):
        if where.endswith(".image_url"):
            address = item.get("url") if isinstance(item, dict) else item
            if isinstance(address, str):
                yield where, address
        else:
            yield from _image_urls(item, where)


def anthropic_images(messages: list[Any]) -> Iterator[str]:
    """The faults of all images in Anthropic messages whose fields have the right types."""
    images = list(_sources(messages, "messages"))
    many = len(images) > _MANY
    longest = _MAX_SIDE_OF_MANY if many else _MAX_SIDE
    if len(images) > _MOST:
        yield f"messages: too many images and documents: {len(images)} + 0 > {_MOST}"
    for where, source in images:
        data = source["data"]
        if len(data) > _MAX_BASE64:
            yield f"{where}: image exceeds 5 MB maximum: {len(data)} bytes > {_MAX_BASE64} bytes"
            continue
        kind, raw = _decoded(data)
        if kind is not None and source["media_type"] != f"image/{kind}":
            yield (f"{where}: Image does not match the provided media type {source['media_type']}")
        elif kind is None or not all(_size(kind, raw)):
            yield f"{where}: Could not process image"
        elif max(_size(kind, raw)) > longest:
            for_many = " for many-image requests" if many else ""
            yield (
                f"{where}: At least one of the image dimensions exceed max allowed size{for_many}: "
                f"{longest} pixels"
            )


def _sources(value: object, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each image sent as data, a model's own words and arguments left out, with its place."""
    if isinstance(value, dict) and value.get("type") == "image":
        if value["source"]["type"] == "base64":
            yield f"{place}.image.source.base64.data", value["source"]
    elif not (isinstance(value, dict) and value.get("role") == "assistant"):
        for where, item in _items(value, place):
            yield from _sources(item, where)


def _items(value: object, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{place}.{key}", item) for key, item in value.items())
    elif isinstance(value, list):
        yield from ((f"{place}.{index}", item) for index, item in enumerate(value))


def _decoded(data: str) -> tuple[str | None, bytes]:
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return None, b""
    return next((kind for magic, kind in _KINDS.items() if raw.startswith(magic)), None), raw


def _size(kind: str, data: bytes) -> tuple[int, int]:
    """Width and height in pixels, zeros when the image can't be read to its end."""
    try:
        return _READERS[kind](data)
    except (struct.error, zlib.error, ValueError):
        return 0, 0


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    pixels, at, name = b"", 8, b""
    while name != b"IEND":
        length, name = struct.unpack_from(">I4s", data, at)
        if name == b"IDAT":
            pixels += data[at + 8 : at + 8 + length]
        struct.unpack_from(">I", data, at + 8 + length)
        at += 12 + length
    # At least a filter byte and a bit for each pixel of each row.
    enough = len(zlib.decompress(pixels)) >= height * (1 + (width + 7) // 8)
    return (width, height) if enough else (0, 0)


def _jpeg(data: bytes) -> tuple[int, int]:
    at = next(n for n in range(2, len(data)) if data[n] == 0xFF and 0xC0 <= data[n + 1] <= 0xC2)
    height, width = struct.unpack_from(">HH", data, at + 5)
    return (width, height) if b"\xff\xd9" in data[at:] else (0, 0)


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return (width, height) if data.endswith(b"\0;") else (0, 0)


def _webp(data: bytes) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", data, 4)
    whole = length + 8 <= len(data) and data[8:12] == b"WEBP"
    return (1, 1) if whole else (0, 0)


_READERS = {"png": _png, "jpeg": _jpeg, "gif": _gif, "webp": _webp}


def _frames(kind: str, data: bytes) -> int:
    """How many pictures follow one another; those of a GIF each have a control block."""
    return data.count(b"\x21\xf9\x04") if kind == "gif" else 1
