"""The model's window: what is kept for the reply, and what refusals say of it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.memory.window import (
    CostForecast,
    Prices,
    Window,
    best_interval,
    decide,
    steps_to_come,
    window_in_words,
)


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
    assert window_in_words(words) == window


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


# USD per token, as a large model with a prompt cache is sold.
CACHED = Prices(prompt=3e-6, cache_read=3e-7, cache_write=3.75e-6, output=15e-6)
UNCACHED = replace(CACHED, cache_read=3e-6, cache_write=3e-6)
EARLY = CostForecast(
    tokens=110_000, target=20_000, high_water=150_000, growth=2_000.0, steps_left=100.0
)


def test_the_best_interval_costs_least_per_step():
    def per_step(stride, cost=50_000.0, cache_read=0.1, growth=500.0):
        return cost / stride + cache_read * growth * stride / 2

    best = best_interval(50_000.0, 0.1, 500.0)
    assert best == pytest.approx(44.7, abs=0.1)
    assert per_step(best) <= min(per_step(best * 0.9), per_step(best * 1.1))


def test_over_the_mark_it_is_due_whatever_it_costs():
    full = replace(EARLY, tokens=150_001, steps_left=0.0)
    decision = decide(full, CACHED)
    assert decision.due
    assert "over the mark" in decision.reason
    assert decision.numbers["tokens"] == 150_001


def test_before_the_mark_it_is_due_once_the_steps_to_come_pay_for_it():
    assert decide(EARLY, CACHED).due
    assert not decide(replace(EARLY, steps_left=5.0), CACHED).due, "too little is left to be saved"
    assert not decide(replace(EARLY, tokens=40_000), CACHED).due, "the stride is not reached"


def test_without_a_cache_shorter_strides_pay():
    small = replace(EARLY, tokens=45_000)
    assert not decide(small, CACHED).due
    assert decide(small, UNCACHED).due


def test_a_summariser_that_reads_all_that_goes_makes_strides_longer():
    alone = decide(replace(EARLY, summarised=False), CACHED).numbers
    assert alone["stride_steps"] < decide(EARLY, CACHED).numbers["stride_steps"]


def test_where_no_price_is_known_the_usual_relation_counts():
    decision = decide(EARLY, None)
    assert decision.due
    assert decision.numbers["prices_known"] == 0.0


def test_a_session_is_expected_to_go_on_as_long_as_it_has():
    assert steps_to_come(40) == 40.0
    assert steps_to_come(0) > 0


positive = st.floats(1e-9, 1e-3)


@given(
    prices=st.builds(Prices, positive, positive, positive, positive),
    tokens=st.integers(0, 10**6),
    target=st.integers(0, 10**6),
    growth=st.floats(-1e4, 1e5),
    steps=st.floats(0, 1e4),
)
def test_never_below_the_target_always_over_the_mark_and_json_can_hold_the_numbers(
    prices, tokens, target, growth, steps
):
    mark = target + 1_000
    decision = decide(CostForecast(tokens, target, mark, growth, steps), prices)
    if tokens <= target:
        assert not decision.due
    if tokens > mark:
        assert decision.due
    assert all(-inf < number < inf for number in decision.numbers.values())
