"""The model's window: what is kept for the reply, and what refusals say of it."""

from __future__ import annotations

import pytest

from agentcli.memory.window import Window, told_window


@pytest.mark.parametrize(
    ("words", "window"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 "
            "tokens (7000 in the messages, 2000 in the completion).",
            8_192,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum "
            "context length is 8192 tokens and your request has 1833 input tokens "
            "(16384 > 8192 - 1833).",
            8_192,
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200_000),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576)",
            1_048_576,
        ),
        ("request (9000 tokens) exceeds the available context size (8192 tokens)", 8_192),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            32_768,
        ),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 and 100", 4_096),
        ("Range of input length should be [1, 30720]", 30_720),
        ("exceeded model token limit: 8192 (requested: 9000)", 8_192),
        ("Your request exceeded model token limit: 131,072", 131_072),
        ("Current length is 9000 while limit is 8192", 8_192),
        ("maximum prompt length is 131072 but the request contains 200000 tokens", 131_072),
        ("n_keep: 9000 >= n_ctx: 4096", 4_096),
        ("Prompt exceeds max length", 0),
        ("Input is too long for requested model.", 0),
    ],
)
def test_a_refusal_tells_the_window(words, window):
    assert told_window(words) == window


def test_at_most_a_quarter_is_kept_for_the_reply_and_a_long_prompt_leaves_it_less():
    window = Window(lambda: 8_000, 16_000)
    assert window.prompt_tokens == 6_000
    assert window.reply_tokens(1_000, 16_000) == 6_600
    assert window.reply_tokens(5_600, 16_000) == 2_000
    assert window.reply_tokens(7_900, 16_000) == 500
    assert Window(lambda: 200_000, 16_000).reply_tokens(100_000, 16_000) == 16_000


def test_a_window_that_was_guessed_comes_down_to_what_is_accepted():
    window = Window(lambda: 32_000, 1_000)
    for prompt in (20_000, 12_000):
        assert window.was_refused(prompt, 1_000, "too long", counted=True) == 0
    window.was_accepted(9_000)
    assert 9_000 <= window.tokens < 13_000
    window.was_refused(8_000, 500, "too long", counted=True)
    assert window.tokens == 9_000, "so many were accepted"


def test_if_the_window_is_known_a_refusal_means_that_the_estimate_was_too_low():
    window = Window(lambda: 8_000, 2_000, is_known=True)
    assert window.was_refused(3_000, 2_000, "too long", counted=False) == 6_000
    assert window.tokens == 8_000
    window = Window(lambda: 128_000, 2_000)
    told = "maximum context length is 8000 tokens"
    assert window.was_refused(3_000, 2_000, told, counted=True) == 6_000
    assert window.tokens == 8_000
    assert window.refuses(9_000)
    window.was_refused(5_000, 1_000, "maximum size is 33554432 bytes", counted=True)
    assert window.tokens == 5_500
