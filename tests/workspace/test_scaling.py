"""Images that are larger than a model sees are scaled down, and what was done is told."""

from __future__ import annotations

import base64
import io
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from agentcli.llm.catalog import image_limits
from agentcli.messages import ImageLimits
from agentcli.workspace.images import (
    MAX_BYTES,
    ImageFault,
    data_url,
    fit_data_url,
    fit_image,
    fit_message_images,
)
from tests.workspace.test_images import _chunk, jpeg, png

LIMITS = ImageLimits()


def drawn(width: int, height: int, kind: str = "PNG", mode: str = "RGB", **options) -> bytes:
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).rectangle((width // 2, 0, width, height), fill="black")
    out = io.BytesIO()
    image.convert(mode).save(out, kind, **options)
    return out.getvalue()


def decoded(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


@pytest.mark.parametrize(
    ("model", "width", "height", "seen"),
    [
        ("anthropic/claude-sonnet-5-5", 3840, 2160, (1430, 804)),
        ("anthropic/claude-sonnet-5-5", 3136, 100, (1568, 50)),
        ("anthropic/claude-sonnet-5-5", 1000, 1000, (1000, 1000)),
        ("openrouter/anthropic/claude-opus-4.8", 2000, 2000, (1072, 1072)),
        ("openai/gpt-5.5", 3840, 2160, (2000, 1125)),
        ("openai/gpt-5.5", 1920, 1080, (1920, 1080)),
        ("ollama/llava", 1, 5000, (1, 2000)),
    ],
)
def test_an_image_is_as_large_as_its_model_sees_it(model, width, height, seen):
    image = fit_image(drawn(width, height), image_limits(model))
    assert decoded(image.url).size == seen
    assert bool(image.note) is (seen != (width, height))


def test_the_model_is_told_how_to_find_places_again():
    image = fit_image(drawn(4000, 3000), LIMITS)
    assert image.note == (
        "4000x3000 pixels, shown scaled down to 2000x1500; multiply coordinates by 2 to get those "
        "in the original"
    )
    uneven = fit_image(drawn(3000, 200), LIMITS)
    assert "by 1.5 (x) and 1.504 (y)" in uneven.note


@pytest.mark.parametrize(
    ("kind", "mode", "sent"),
    [
        ("PNG", "RGBA", "PNG"),
        ("PNG", "P", "PNG"),
        ("PNG", "1", "PNG"),
        ("PNG", "I;16", "PNG"),
        ("GIF", "P", "PNG"),
        ("WEBP", "RGB", "PNG"),
        ("JPEG", "L", "JPEG"),
        ("JPEG", "CMYK", "JPEG"),
        ("BMP", "RGB", "PNG"),
        ("TIFF", "CMYK", "PNG"),
    ],
)
def test_all_kinds_are_scaled_and_still_show_what_they_show(kind, mode, sent):
    image = decoded(fit_image(drawn(2400, 1200, kind, mode), LIMITS).url)
    assert (image.format, image.size) == (sent, (2000, 1000))
    left, right = (image.convert("L").getpixel((x, 500)) for x in (500, 1500))
    assert left > 200 > 50 > right


def test_a_photo_that_lies_on_its_side_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = fit_image(drawn(4000, 3000, "JPEG", exif=exif), LIMITS)
    assert decoded(image.url).size == (1500, 2000)
    assert image.note.startswith("3000x4000 pixels")


def test_what_fits_is_passed_on_byte_for_byte():
    for data in (drawn(2000, 2000), drawn(300, 200, "JPEG"), png(7, 9)):
        assert fit_image(data, LIMITS).url == data_url(data)


@pytest.mark.parametrize("kind", ["BMP", "TIFF"])
def test_what_no_model_takes_is_made_a_png(kind):
    image = fit_data_url(data_url(drawn(300, 200, kind)), LIMITS)
    assert (decoded(image.url).format, decoded(image.url).size) == ("PNG", (300, 200))
    assert image.note == ""


def test_of_several_pages_the_first_is_shown_and_the_others_are_told():
    pages = [Image.new("L", (30, 20), shade) for shade in (0, 255, 255)]
    out = io.BytesIO()
    pages[0].save(out, "TIFF", save_all=True, append_images=pages[1:])
    image = fit_image(out.getvalue(), LIMITS)
    assert image.note == "page 1 of 3"
    assert decoded(image.url).getpixel((0, 0)) == 0


def test_too_many_bytes_are_no_obstacle():
    noise = Image.effect_noise((1800, 1800), 90).convert("RGB")
    out = io.BytesIO()
    noise.save(out, "PNG", compress_level=0)
    assert len(out.getvalue()) > MAX_BYTES
    image = fit_image(out.getvalue(), LIMITS)
    assert len(image.url) < 5_000_000
    assert (decoded(image.url).size, image.note) == ((1800, 1800), "")


def test_what_is_sound_only_outside_is_told():
    with pytest.raises(ImageFault, match="can't be decoded"):
        fit_image(jpeg(3_000, 3_000), LIMITS)


@pytest.mark.parametrize("side", [60_000, 12_300])
def test_a_bomb_is_never_unpacked(side):
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = [_chunk(b"IHDR", header), _chunk(b"IDAT", b"x"), _chunk(b"IEND", b"")]
    for data in (jpeg(side, side), b"\x89PNG\r\n\x1a\n" + b"".join(parts)):
        with pytest.raises(ImageFault, match=f"{side}x{side} pixels, more than the"):
            fit_image(data, LIMITS)


whole = st.sampled_from(
    [
        drawn(2100, 40, "GIF", "P"),
        *(drawn(2100, 40, kind) for kind in ("PNG", "JPEG", "BMP", "TIFF")),
    ]
)


@settings(max_examples=60)
@given(whole, st.data())
def test_damage_is_told_never_raised_as_something_else(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 6))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with suppress(ImageFault):
        fit_image(bytes(damaged), LIMITS)


def test_a_message_names_its_images():
    urls = [data_url(drawn(10, 10)), data_url(drawn(4000, 10))]
    text, sent = fit_message_images("Look.", urls, LIMITS)
    assert text.startswith("Look.\n\n[image 2: 4000x10 pixels, shown scaled down to 2000x5;")
    assert sent[0] == urls[0]
    assert fit_message_images("Look.", urls[:1], LIMITS) == ("Look.", (urls[0],))
    with pytest.raises(ImageFault, match="image 2 is cut off"):
        fit_message_images("Look.", [urls[0], "data:image/png;base64," + "iVBORw0KGgo="], LIMITS)


def test_an_address_is_left_alone():
    assert fit_data_url("https://example.org/a.png", LIMITS).url == "https://example.org/a.png"
