"""When a condensation pays: numbers in, a decision out."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.memory.condensation_cost import Outlook, Prices, best_interval, decide, steps_to_come

# USD per token, as a large model with a prompt cache is sold.
CACHED = Prices(prompt=3e-6, cache_read=3e-7, cache_write=3.75e-6, output=15e-6)
UNCACHED = replace(CACHED, cache_read=3e-6, cache_write=3e-6)
EARLY = Outlook(tokens=110_000, target=20_000, high_water=150_000, growth=2_000.0, steps_left=100.0)


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
    decision = decide(Outlook(tokens, target, mark, growth, steps), prices)
    if tokens <= target:
        assert not decision.due
    if tokens > mark:
        assert decision.due
    assert all(-inf < number < inf for number in decision.numbers.values())
