"""Images: known by their bytes, and only sound ones are let in."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.workspace.images import ImageFacts, ImageFault, file_url, inspected


def png(width: int = 1, height: int = 1, tail: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(bytes(1 + 3 * width) for _ in range(height)))
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks) + tail


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def jpeg(width: int = 1, height: int = 1) -> bytes:
    thumbnail = b"\xff\xd8\xff\xd9"
    exif = b"\xff\xe1" + struct.pack(">H", 2 + len(thumbnail)) + thumbnail
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\x01\x00\x00\x3f\x00"
    return b"\xff\xd8" + exif + frame + scan + b"\x12\xff\x00\x34" + b"\xff\xd9"


def gif(width: int = 1, height: int = 1, frames: int = 1) -> bytes:
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    control = b"\x21\xf9\x04\x00\x00\x00\x00\x00"
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0x80) + bytes(6)
    return b"GIF89a" + screen + (control + frame + b"\x02\x02\x44\x01\x00") * frames + b";"


def webp(width: int = 1, height: int = 1, kind: bytes = b"VP8 ", flags: int = 0) -> bytes:
    if kind == b"VP8 ":
        data = b"\x30\x01\x00\x9d\x01\x2a" + struct.pack("<HH", width, height)
    elif kind == b"VP8L":
        data = b"\x2f" + struct.pack("<I", width - 1 | (height - 1) << 14)
    else:
        sides = ((side - 1).to_bytes(3, "little") for side in (width, height))
        data = bytes([flags, 0, 0, 0]) + b"".join(sides)
    body = b"WEBP" + kind + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def lossless(width: int = 1, height: int = 1) -> bytes:
    return webp(width, height, b"VP8L")


def extended(width: int = 1, height: int = 1) -> bytes:
    return webp(width, height, b"VP8X")


MAKERS = [png, jpeg, gif, webp, lossless, extended]
sides = st.integers(1, 2_000)


@given(st.sampled_from(MAKERS[1:]), sides, sides)
def test_kind_and_size_are_read_from_the_bytes(make, width, height):
    image = inspected(make(width, height))
    assert (image.width, image.height) == (width, height)
    assert image.kind in make.__name__ or image.kind == "webp"


def test_a_png_has_its_size_at_its_head():
    assert inspected(png(20, 3)) == ImageFacts("png", 20, 3)


@given(st.sampled_from([make(7, 9) for make in MAKERS]), st.data())
def test_whatever_is_cut_off_is_refused(whole, data):
    inspected(whole)
    with pytest.raises(ImageFault):
        inspected(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.sampled_from([make(7, 9) for make in MAKERS]), st.data())
def test_damage_of_any_kind_is_told_never_raised_as_something_else(whole, data):
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = inspected(bytes(damaged))
    except ImageFault:
        return
    assert image.width > 0


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b""]), st.binary())
def test_no_bytes_are_too_odd(start, rest):
    with suppress(ImageFault):
        inspected(start + rest)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b"\n<!DOCTYPE html><p>Not found</p>", "it holds a web page"),
        (b"BM" + bytes(60), r"not an image that models take \(PNG, JPEG,"),
        (png().replace(struct.pack(">II", 1, 1), struct.pack(">II", 1, 100_000)), "checksum"),
        (gif(0, 5), "0x5 pixels"),
        (gif(frames=2), "animated gif"),
        (webp(5, 5, b"VP8X", flags=2), "animated webp"),
        (b"\x89PNG\r\n\x1a\n" + _chunk(b"IDAT", b""), "without its header"),
        (gif(frames=0), "without pixels"),
    ],
)
def test_what_no_model_takes_is_named(data, says):
    with pytest.raises(ImageFault, match=says):
        inspected(data)


def test_bytes_after_the_end_do_no_harm():
    assert inspected(png() + b"\n").kind == "png"
    assert inspected(jpeg() + bytes(100)).kind == "jpeg"


def test_only_a_file_of_a_fitting_size_is_read(tmp_path):
    with pytest.raises(ImageFault, match="is not a file"):
        file_url(tmp_path)
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ImageFault, match="more than"):
        file_url(huge)
    (tmp_path / "dot.txt").write_bytes(png())
    assert file_url(tmp_path / "dot.txt").startswith("data:image/png;base64,iVBOR")
