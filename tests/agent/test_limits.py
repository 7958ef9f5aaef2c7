"""When a limit is reached, what is kept for the summary, and time that runs out."""

from __future__ import annotations

import signal
import time

import pytest

from agentcli import interrupts
from agentcli.errors import TurnInterrupted
from agentcli.interrupts import Countdown, OutOfTime, pause_countdown, shield
from agentcli.sessions.state import AgentState, State
from tests.agent.parts import limits_of


@pytest.mark.parametrize(
    ("most", "summary", "done", "over"),
    [
        (10, True, 8, False),
        (10, True, 9, True),
        (10, False, 9, False),
        (10, False, 10, True),
        (1, True, 0, False),
        (1, True, 1, True),
        (2, True, 1, True),
    ],
)
def test_the_last_turn_is_kept_for_the_summary_unless_it_is_the_only_one(most, summary, done, over):
    limits = limits_of(max_turns=most, summary_at_limit=summary)
    state = State(session_id="s", local_iteration=done)
    ending = limits.ending_at_limit(state)
    assert (ending is not None) is over
    if ending is not None:
        assert (ending.agent_state, ending.exit_code) == (AgentState.PAUSED, 6)
        assert ending.hint == f"to go on: agent resume s --max-turns {2 * most}"
    assert limits.room_for_summary(state, None) is (summary and done < most)


@pytest.mark.parametrize(("max_time_s", "kept"), [(10, 2), (100, 20), (150, 30), (3_600, 30)])
def test_of_the_time_a_fifth_is_kept_but_30_s_at_most(max_time_s, kept):
    assert limits_of(max_time_s=max_time_s).reserve_s() == pytest.approx(kept)
    assert limits_of(max_time_s=max_time_s, summary_at_limit=False).reserve_s() == 0


@pytest.mark.parametrize(
    ("bad_calls", "bad_replies", "reason", "exit_code"),
    [
        (3, 2, "bad_calls", 1),
        (3, 0, "bad_calls", 1),
        (2, 2, "bad_replies", 4),
        (2, 1, "max_turns", 6),
    ],
)
def test_faults_count_before_limits(bad_calls, bad_replies, reason, exit_code):
    state = State(bad_calls=bad_calls, bad_replies=bad_replies, local_iteration=100)
    ending = limits_of(max_bad_calls=3, max_bad_replies=2, max_turns=9).ending_at_limit(state)
    assert (ending.reason, ending.exit_code) == (reason, exit_code)


def test_the_end_of_the_time_interrupts_whatever_is_going_on():
    with pytest.raises(OutOfTime) as caught, Countdown(0.05).interrupting():
        signal.pause()
    assert caught.value.exit_code == 6
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def _rings() -> None:
    """Returns when the time is over and only a shield keeps it from interrupting."""
    while interrupts._waiting is None:
        signal.sigtimedwait([], 0.01)


def test_what_must_not_be_torn_is_finished_first():
    finished = []

    def work() -> None:
        with shield():
            _rings()
            finished.append(True)

    with pytest.raises(OutOfTime), Countdown(0.01).interrupting():
        work()
    assert finished


def test_time_that_runs_out_as_the_work_ends_interrupts_nothing():
    with shield():
        with Countdown(0.01).interrupting():
            _rings()
        assert interrupts._waiting is None
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_person_counts_more_than_the_time():
    person = TurnInterrupted("interrupted", 130)

    def press() -> None:
        with shield():
            _rings()
            interrupts.interrupt(person)
            assert interrupts._waiting is person

    with pytest.raises(TurnInterrupted) as caught, Countdown(0.01).interrupting():
        press()
    assert caught.value is person


def test_a_person_who_interrupts_in_time_is_not_interrupted_in_turn():
    left = []

    def press() -> None:
        try:
            interrupts.interrupt(TurnInterrupted("interrupted", 130))
        finally:
            left.append(signal.getitimer(signal.ITIMER_REAL))

    with pytest.raises(TurnInterrupted) as caught, Countdown(60).interrupting():
        press()
    assert caught.value.exit_code == 130
    assert left == [(0.0, 0.0)]


def test_off_the_clock_no_time_passes(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    countdown = Countdown(60)
    with countdown.interrupting(10):
        with pause_countdown():
            now += 1_000
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert countdown.left_s == 60
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50
        now += 5
    assert countdown.left_s == 55
