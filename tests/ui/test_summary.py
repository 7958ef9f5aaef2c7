import pytest

from agentcli.messages import Usage
from agentcli.ui.summary import RunSummary, closing_facts, duration, money, quantity


def facts(**values):
    return " · ".join(
        closing_facts(RunSummary(**{"status": "finished", "session_id": "s", **values}))
    )


def test_a_run_that_went_well():
    usage = Usage(prompt_tokens=39_000, completion_tokens=2_200, cache_read_tokens=33_930)
    assert (
        facts(duration_s=12.3, steps=8, usage=usage, cost_usd=0.12, files_changed=("a", "b"))
        == "done in 12 s · 8 steps · 41.2k tokens (87% cached) · $0.12 · 2 files changed"
    )


def test_an_unknown_price_is_said():
    assert facts(steps=1).endswith("1 step · 0 tokens · price unknown")


def test_other_endings_say_why():
    assert (
        facts(status="paused", reason="max_turns", exit_code=6) == "paused (max turns) after 0.0 s"
    )
    assert facts(status="error", reason="auth", exit_code=3) == "failed (auth) after 0.0 s"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (61, "1 min 01 s"), (3660, "1 h 01 min")],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(999, "999"), (1000, "1k"), (41_230, "41.2k"), (152_000, "152k"), (1_200_000, "1.2M")],
)
def test_quantities(number, said):
    assert quantity(number) == said


@pytest.mark.parametrize(
    ("usd", "said"), [(0, "$0.00"), (0.0042, "$0.0042"), (0.123, "$0.12"), (12, "$12.00")]
)
def test_money(usd, said):
    assert money(usd) == said
