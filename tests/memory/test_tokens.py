"""Tokens of what is sent: bytes, images by their size, and what the provider counted."""

from __future__ import annotations

import base64

import pytest

from agentcli.memory.tokens import (
    UNKNOWN_IMAGE_TOKENS,
    Size,
    TokenEstimator,
    image_tokens,
    size_of,
    text_bytes,
)
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


def test_calls_and_text_count_in_bytes_of_weight():
    plain = size_of(Message.assistant_message("é" * 10))
    call = size_of(Message.from_tool_calls([ToolCall("c", "bash", "x" * 100)], "é" * 10))
    assert plain.text - size_of(Message.assistant_message("")).text == 25
    assert call.text - plain.text > 100


def test_what_the_provider_counts_corrects_the_estimate_and_images_do_not_spoil_it():
    estimator = TokenEstimator()
    assert estimator.tokens(Size(4_000)) == 1_000
    estimator.learn(Size(4_000, images=3_000), 3_000 + 1_600)
    assert estimator.tokens(Size(4_000)) == 1_600
    estimator.learn(Size(4_000, images=3_000), 500)
    assert estimator.tokens(Size(4_000)) == 1_600, "a count below the images' own says nothing"


@pytest.mark.parametrize("told", [0, 1, 200, 5_000, 1_000_000])
def test_a_count_that_can_not_be_true_is_ignored(told):
    estimator = TokenEstimator()
    assert not estimator.learn(Size(4_000), told)
    assert estimator.tokens(Size(4_000)) == 1_000


def test_a_count_that_does_not_grow_with_the_prompt_is_that_of_a_server_which_cuts_it():
    estimator = TokenEstimator()
    assert estimator.learn(Size(12_000), 4_096)
    assert not estimator.learn(Size(24_000), 4_096)
    assert estimator.tokens(Size(24_000)) == 8_192
    assert not estimator.learn(Size(36_000), 4_096)
    assert estimator.learn(Size(6_000), 3_000), "after a condensation it fits again"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 20, 200),
        ("".join(f"{number}\n" for number in range(1_000, 2_000)), 3_000),
        ("快速的棕色狐狸跳过了懒狗" * 50, 600),
        ("Съешь же ещё этих мягких французских булок " * 20, 260),
    ],
    ids=["English", "numbers", "Chinese", "Russian"],
)
def test_unread_text_is_not_taken_for_fewer_tokens_than_it_has(text, tokens):
    """`tokens` has about one for a word of English, for three letters of Russian, for a Chinese
    character and for three digits, and one for the end of a line after digits."""
    estimated = TokenEstimator().tokens(Size(text_bytes(text)))
    assert tokens <= estimated <= 2 * tokens
