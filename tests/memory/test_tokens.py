"""Tokens of what is sent: bytes, images by their size, and what the provider counted."""

from __future__ import annotations

import base64

import pytest

from agentcli.memory.image_tokens import UNKNOWN_IMAGE_TOKENS, image_tokens
from agentcli.memory.tokens import Size, TokenEstimator, size_of
from agentcli.messages import Message, ToolCall
from tests.memory.long_histories import png


@pytest.mark.parametrize(
    ("provider", "size", "tokens"),
    [
        ("anthropic", (1_000, 1_000), 1_334),
        ("anthropic", (200, 200), 54),
        ("openai", (1_024, 1_024), 765),
        ("openai-chat", (2_048, 4_096), 1_105),
        ("gemini", (300, 300), 258),
        ("gemini", (1_000, 700), 516),
        ("vllm", (1_000, 1_000), UNKNOWN_IMAGE_TOKENS),
    ],
)
def test_an_image_counts_as_its_provider_counts(provider, size, tokens):
    assert image_tokens(png(*size), provider) == tokens


def as_url(data: bytes) -> str:
    return "data:image/x;base64," + base64.b64encode(data).decode()


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10"
    + bytes(14)
    + b"\xff\xc0\x00\x11\x08"
    + b"\x00\xc8\x01\x2c"
    + bytes(9)
)


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a" + (300).to_bytes(2, "little") + (200).to_bytes(2, "little") + bytes(4),
        JPEG,
        b"RIFF\0\0\0\0WEBPVP8X"
        + bytes(8)
        + (299).to_bytes(3, "little")
        + (199).to_bytes(3, "little"),
        b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + b"\x2c\x01\xc8\x00",
        b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + (299 | 199 << 14).to_bytes(4, "little"),
    ],
    ids=["gif", "jpeg", "webp extended", "webp", "webp lossless"],
)
def test_the_size_of_every_kind_of_image_is_seen(data):
    assert image_tokens(as_url(data + bytes(8)), "anthropic") == 80


@pytest.mark.parametrize(
    "url",
    [
        "https://images.example/a.png",
        "data:image/png;base64,????",
        "data:image/png;base64,",
        as_url(b"\x89PNG"),
        as_url(b"\xff\xd8\xff"),
        as_url(b"\xff\xd8\xff\xe0\x00\x00" * 30),
    ],
)
def test_an_image_that_can_not_be_measured_is_guessed(url):
    assert image_tokens(url, "anthropic") == UNKNOWN_IMAGE_TOKENS


def test_calls_and_text_count_in_bytes():
    plain = size_of(Message.assistant_message("é" * 10))
    call = size_of(Message.from_tool_calls([ToolCall("c", "bash", "x" * 100)], "é" * 10))
    assert plain.text - size_of(Message.assistant_message("")).text == 20
    assert call.text - plain.text > 100


def test_what_the_provider_counts_corrects_the_estimate_and_images_do_not_spoil_it():
    estimator = TokenEstimator()
    assert estimator.tokens(Size(4_000)) == 1_000
    estimator.learn(Size(4_000, images=3_000), 3_000 + 1_600)
    assert estimator.tokens(Size(4_000)) == 1_600
    estimator.learn(Size(4_000, images=3_000), 500)
    assert estimator.tokens(Size(4_000)) == 1_600, "a count below the images' own says nothing"
    estimator.learn(Size(4_000), 1)
    assert estimator.tokens(Size(4_000)) == 500
