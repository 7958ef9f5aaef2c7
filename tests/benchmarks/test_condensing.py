"""The comparison of condensing policies: its sessions, its prices, what it counts."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from agentcli.events.observations import FileReadObservation
from agentcli.memory.window import Prices
from benchmarks import condensing
from benchmarks.condensing import report
from benchmarks.condensing.generator import SIZES, Shape, session
from benchmarks.condensing.policies import OURS, policies
from benchmarks.condensing.prices import CACHES, MODELS, Cache, Model, Sent, listed
from benchmarks.condensing.simulate import Course, followed, never, optimum, ours, replay, summary

CACHE = Cache(least=1_000, unit=100, lifetime_s=300.0)
MODEL = Model("anthropic/test", 3e-6, 3e-7, 3.75e-6, 15e-6, CACHE)
SENT = Sent(
    prompt=10_000, shared=9_050, fixed=2_000, blocks_after_shared=2, idle_s=10.0, output=100
)
WINDOW = 48_000
BY_NAME = {policy.name: policy for policy in policies()}


@pytest.fixture(scope="module")
def story():
    return session(Shape(150), seed=3)


@pytest.fixture(scope="module")
def outcomes(story):
    return {name: replay(story, policy, MODEL, WINDOW) for name, policy in BY_NAME.items()}


def test_a_seed_gives_the_same_session_each_time(story):
    assert session(Shape(150), seed=3) == story
    assert session(Shape(150), seed=4) != story
    assert len(story) == 150


def test_sessions_are_like_those_they_stand_for():
    story = session(Shape(1_000), seed=1)
    calls = [call for step in story for call in step.calls]
    results = sum(len(call.result.content) for call in calls)
    rest = sum(len(call.arguments) for call in calls) + sum(
        len(step.text) + len(step.said) for step in story
    )
    assert 0.7 < results / (results + rest) < 0.9
    reads = [c.result.path for c in calls if isinstance(c.result, FileReadObservation)]
    assert len(set(reads)) < len(reads) / 2, "files are come back to"
    _, _, least, most = SIZES["read"]
    sizes = [len(c.result.content) for c in calls if isinstance(c.result, FileReadObservation)]
    assert least <= min(sizes)
    assert max(sizes) <= most
    assert any(len(step.calls) > 1 for step in story)
    assert sum(bool(step.said) for step in story) > 10


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_step_needs_was_told_before_it(seed):
    told: set[str] = set()
    needed = 0
    for step in session(Shape(1_000), seed):
        assert told.issuperset(step.needs)
        needed += len(step.needs)
        told.update(call.fact for call in step.calls)
    assert needed > 20


def test_a_prefix_that_was_sent_before_is_read_from_the_cache():
    assert MODEL.cached(SENT) == 9_000, "in whole units"
    expected = 9_000 * 3e-7 + 1_000 * 3.75e-6 + 100 * 15e-6
    assert MODEL.cost(SENT) == pytest.approx(expected)


@pytest.mark.parametrize(
    "change",
    [{"idle_s": 301.0}, {"shared": 900}, {"purpose": "summary"}],
    ids=["after its lifetime", "too short", "of another request"],
)
def test_what_the_cache_does_not_hold_is_paid_in_full(change):
    assert MODEL.cached(replace(SENT, **change)) == 0


def test_far_from_the_last_mark_only_the_fixed_part_is_found_again():
    model = replace(MODEL, cache=replace(CACHE, lookback=20))
    assert model.cached(replace(SENT, blocks_after_shared=20)) == 9_000
    assert model.cached(replace(SENT, blocks_after_shared=21)) == 2_000
    assert CACHES["anthropic"].lookback == 20


def test_a_bill_adds_up(outcomes):
    bill = MODEL.bill(outcomes[OURS].sent)
    steps = sum(MODEL.cost(sent) for sent in outcomes[OURS].sent if sent.purpose == "step")
    assert bill.usd == pytest.approx(steps + bill.recalls + bill.summaries)
    assert bill.recalls > 0
    assert bill.summaries > 0
    assert 0 < bill.cached < bill.sent


def test_list_prices_are_those_of_the_package():
    sonnet = listed("anthropic/claude-sonnet-4-6")
    assert sonnet.cache_read == pytest.approx(sonnet.prompt * 0.1)
    assert sonnet.cache_write == pytest.approx(sonnet.prompt * 1.25)
    assert len({name.partition("/")[0] for name in MODELS}) >= 4
    for name in MODELS:
        model = listed(name)
        assert 0 < model.cache_read < model.prompt <= model.cache_write < model.output
    with pytest.raises(LookupError):
        listed("anthropic/no-such-model")


def test_between_condensations_each_request_begins_with_the_one_before(outcomes):
    for name in ("only when full", OURS):
        outcome = outcomes[name]
        asked = [sent for sent in outcome.sent if sent.purpose != "summary"]
        broken = sum(now.shared < before.prompt - 2 for before, now in pairwise(asked))
        assert 0 < broken <= len(outcome.condensations)


def test_sliding_by_one_gives_up_the_cache_and_costs_the_most_per_token(outcomes):
    def per_token(name):
        bill = MODEL.bill(outcomes[name].sent)
        return bill.usd / bill.sent

    assert per_token("slide by one") > 1.5 * per_token("only when full")


def test_no_request_is_larger_than_the_window(outcomes):
    for outcome in outcomes.values():
        assert max(sent.prompt for sent in outcome.sent) < WINDOW


def test_every_policy_is_asked_for_the_same_facts(story, outcomes):
    needed = sum(len(step.needs) for step in story)
    assert {outcome.facts.needed for outcome in outcomes.values()} == {needed}


def test_facts_are_seen_named_searched_or_lost(outcomes):
    assert outcomes["slide by one, no trace"].facts.lost > 0
    ranged, masked, summed = (
        outcomes[name].facts for name in ("slide by one", "mask by one", "summary at 50% to 25%")
    )
    assert (ranged.lost, ranged.named) == (0, 0)
    assert ranged.searched > 0
    assert masked.named > 0
    assert summed.named > summed.searched
    assert outcomes[OURS].facts.lost == 0


def test_each_recall_is_a_request_more(story, outcomes):
    for outcome in outcomes.values():
        recalls = sum(sent.purpose == "recall" for sent in outcome.sent)
        assert recalls == outcome.facts.named + 2 * outcome.facts.searched
        assert sum(sent.purpose == "step" for sent in outcome.sent) == len(story)


def test_a_summary_names_all_that_it_stands_for_in_few_lines():
    events = "\n".join(f"[{number}] result: text" for number in range(100, 400))
    material = f"The summary so far:\n- done [3-90]\n\nThe events to sum up:\n{events}"
    text = summary(material)
    assert "[3-90]" in text
    assert "[100-" in text
    assert "-399]" in text
    assert text.count("\n") <= 40
    assert 3_000 < len(text) < 9_000, "as long as a model is told to be at most"


PRICES = Prices(prompt=3e-6, cache_read=3e-7, cache_write=3.75e-6, output=15e-6)
SHORT = Course(start=9_000, growth=[4_000, 9_000, 2_000] * 4, target=8_000, mark=40_000)


def test_the_optimum_is_what_trying_all_finds():
    best, points = optimum(SHORT, PRICES)
    steps = range(1, len(SHORT.growth) + 1)
    tried = [
        followed(SHORT, PRICES, lambda tokens, step, growth, at=chosen: step in at)[0]
        for count in range(len(steps) + 1)
        for chosen in combinations(steps, count)
    ]
    assert best == pytest.approx(min(tried))
    again, _ = followed(SHORT, PRICES, lambda tokens, step, growth: step in points)
    assert again == pytest.approx(best)
    assert points


@pytest.mark.parametrize("name", MODELS)
def test_our_decision_comes_near_the_optimum(name):
    model = listed(name)
    prices = Prices(model.prompt, model.cache_read, model.cache_write, model.output)
    growth = [1_000] * 600
    course = Course(start=3_000, growth=growth, target=20_000, mark=140_000)
    mine, _ = followed(course, prices, ours(course, prices))
    late, _ = followed(course, prices, never)
    best, _ = optimum(course, prices)
    assert best <= mine < best * 1.25
    assert mine <= late


def test_the_whole_comparison_is_told_and_written(tmp_path):
    figures, notes = condensing.measure(tmp_path, quick=True)
    assert notes == []
    assert {figure.name.partition(",")[0] for figure in figures} == set(MODELS)
    assert all(figure.value > 0 for figure in figures)
    data = json.loads((tmp_path / "condensing.json").read_text())
    assert len(data["rows"]) == len(policies()) * len(MODELS)
    assert len(data["verdicts"]) == len(MODELS)
    assert {path.suffix for path in tmp_path.iterdir()} & {".svg", ".txt"}


def test_tables_verdicts_and_bars_name_every_policy(story):
    plan = replace(report.QUICK, lengths=(60,))
    rows = report.rows(plan, [MODEL])
    text = report.table(rows, 60, plan.windows[0])
    bars = report.characters(rows)
    for policy in policies():
        assert f"| {policy.name} |" in text
        assert policy.name in bars
    assert bars.count("→") == 1
    (verdict,) = report.verdicts(rows)
    assert verdict.startswith("anthropic/test, 60 steps, window 64,000: ours $")
    mine, least = report.best_of_equals(rows, 60, plan.windows[0], MODEL.name)
    assert least.bill.usd <= mine.bill.usd
    assert least.facts.known >= mine.facts.known - report.EQUAL_SHARE
