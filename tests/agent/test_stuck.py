"""What is taken for going in circles, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.agent.ending import Ending
from agentcli.agent.stuck import WAITING, action_key, check_progress
from agentcli.events.actions import MessageAction
from agentcli.sessions.state import State
from tests.agent.histories import History, bash, cell, edit, job, read, refused

PASSED = "3 passed in 0.12s"


def outcome(history: History, *, interactive: bool = False) -> str:
    """The rule of the nudge, `stopped`, or nothing."""
    found = check_progress(history.events, State(session_id="s"), interactive=interactive)
    if isinstance(found, Ending):
        assert (found.reason, found.exit_code) == ("stuck", 1)
        assert "agent resume s" in found.hint
        return "stopped"
    return found.nudge or "" if isinstance(found, MessageAction) else ""


def requests_until_stopped(steps, most: int = 100) -> tuple[int, int]:
    """After how many requests a model that does nothing but `steps`, again and again, is nudged
    and is stopped."""
    history, nudged = History(), 0
    for number in range(1, most):
        history.step(steps[(number - 1) % len(steps)])
        found = check_progress(history.events, State(), interactive=False)
        if isinstance(found, Ending):
            return nudged, number
        if found is not None:
            assert not nudged, f"nudged twice: {found.content}"
            nudged = number
            history.add(found)
    raise AssertionError("never stopped")


LOOPS = {
    "the same command": ([bash("make", "make: nothing to do")], 4, 8),
    "the same tests": ([bash("pytest", PASSED)], 4, 8),
    "the same failing command": ([bash("make", "error: no rule", 2)], 4, 8),
    "the same error": ([refused("read", "there is no file x", path="x")], 3, 6),
    "a cell that raises": ([cell("f(1)", "NameError: f", error=True)], 3, 6),
    "a file read again": ([read("a.py", "text")], 4, 8),
    "an edit that changes nothing": ([edit("a", "x", "x")], 4, 8),
    "two by turns": ([bash("ls", "a b"), bash("cat a", "text")], 6, 12),
    "two by turns, one fails": ([bash("ls", "a"), refused("read", "no x", path="x")], 6, 12),
    "three by turns": ([bash("ls", "a"), bash("cat a", "x"), bash("git status", "clean")], 9, 12),
    "two of three alike": ([bash("ls", "a"), bash("ls", "a"), bash("pwd", "/w")], 9, 12),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_told_once_and_stopped_within_twelve_requests(name):
    steps, nudge, stop = LOOPS[name]
    assert requests_until_stopped(steps) == (nudge, stop)


@pytest.mark.parametrize(
    ("action", "outputs"),
    [
        ("date", ["Sun Nov 22 01:02:03 UTC 2026", "Sun Nov 22 01:02:05 UTC 2026"]),
        ("pytest -q", ["3 passed in 0.12s", "3 passed in 0.31s"]),
        ("ls -l a", ["a 2026-11-22 01:02:03", "a 2026-11-22 01:05:03"]),
        ("mktemp", ["/tmp/tmp.Xa81jfh2Kq", "/tmp/tmp.9fjj3kd01Z"]),
        ("run", ["started, pid 4711", "started, pid 4933"]),
        ("run", ["<object at 0x7f3a8c01ae10>", "<object at 0x7f9b11ffae90>"]),
        ("date +%s", ["1763773323", "1763773399"]),
        ("new", ["1b4e28ba-2fa1-11d2-883f-0016d3cca427", "6fa459ea-ee8a-3ca4-894e-db77e160355e"]),
        ("make", ["[lines 1-9 of 10; all in /s/outputs/bash-0f3a9c-7.txt]",
                  "[lines 1-9 of 10; all in /s/outputs/bash-0f3a9c-8.txt]"]),
    ],
)  # fmt: skip
def test_what_differs_by_itself_makes_no_difference(action, outputs):
    steps = [bash(action, outputs[number % 2]) for number in range(4)]
    assert outcome(History().steps(steps)) == "same_result"


def test_the_reason_given_makes_no_difference():
    history = History()
    for number in range(4):
        action, result = bash("make", "nothing to do")
        call = action.tool_call_metadata.model_copy(
            update={"raw_arguments": f'{{"thought": "try {number}", "command": "make"}}'}
        )
        history.step((action.model_copy(update={"tool_call_metadata": call}), result))
    assert outcome(history) == "same_result"


def test_the_same_words_without_a_deed():
    history = History()
    for _ in range(3):
        history.said("I have finished.").told("[A Stop hook says: the tests fail]")
    assert outcome(history) == "same_words"
    history.told("nudge", nudge="same_words")
    for _ in range(3):
        history.said("I have finished.").told("[A Stop hook says: the tests fail]")
    assert outcome(history) == "stopped"


def test_words_with_a_deed_or_a_person_between_are_none():
    history = History()
    for _ in range(4):
        history.said("Done.").step(bash("pytest", PASSED + "x" * len(history.events)))
        assert outcome(history) == ""
    history = History()
    for _ in range(4):
        history.said("Done.").user("once more", delivery="steer")
    assert outcome(history) == ""


def test_ten_condensations_without_anything_new_between_them():
    history = History()
    for number in range(24):
        history.condensed().step(bash(f"cat {number % 7}", "x"))
    assert outcome(history) == "condensations"


@pytest.mark.parametrize("condensations", [1, 2])
def test_any_number_of_condensations_with_work_between_them(condensations):
    history = History()
    for number in range(30):
        for _ in range(condensations):
            history.condensed()
        history.step(bash(f"cat {number}", "x"))
        assert outcome(history) == ""


def growing(number: int) -> str:
    return "".join(f"2026-11-22 01:00:{line:02} compiled unit\n" for line in range(number))


PROGRESS = {
    "a growing log": [bash("cat build.log", growing(n)) for n in range(1, 30)],
    "the end of a log": [bash("tail -2 a.log", growing(n)[-72:]) for n in range(2, 32)],
    "a counter": [bash("curl -s :80/progress", f"{n} of 900") for n in range(30)],
    "a job that prints": [job(f"[job job-1 runs, {n} s]\nline {n}") for n in range(30)],
    "edit, test": [
        done
        for n in range(9)
        for done in (edit("a.py", f"v{n}", f"v{n + 1}"), bash("pytest", "1 failed in 0.2s", 1))
    ],
    "the same edit at other places": [
        done
        for n in range(9)
        for done in (bash("make", "error", 2), edit("a.py", "x", f"x{n}"))
    ],
    "other files": [read(f"{n}.py", "same header") for n in range(20)],
    "other lines": [read("a.py", "# ---", start=n) for n in range(1, 200, 10)],
    "numbered outputs": [bash(f"./case {n}", "ok") for n in range(20)],
    "the same command fails otherwise": [bash("make", f"error in line {n}", 2) for n in range(9)],
    "twice the same, then on": [bash(f"make t{n // 2}", "ok") for n in range(20)],
    "three of the same": [bash("ls", "a"), bash("ls", "a"), bash("ls", "a")],
    "twice by turns": [bash("ls", "a"), bash("cat a", "x")] * 2,
    "waiting": [bash("sleep 30; curl -s :80", "not yet")] * (WAITING - 1),
    "waiting in a loop": [bash("while ! test -e x; do sleep 1; done", "", 124)] * (WAITING - 1),
    "waiting by turns": [bash("sleep 9", ""), bash("curl -s :80", "no")] * (WAITING - 1),
    "a job that is silent": [job(f"[job job-1 runs, {n} s]") for n in range(WAITING - 1)],
    "sleeping in python": [cell("time.sleep(9); ready()", "False")] * (WAITING - 1),
    "retries that fail otherwise": [cell("get()", f"{n} left", error=True) for n in range(2)],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRESS)
def test_progress_is_left_alone_at_every_step(name):
    history = History()
    for done in PROGRESS[name]:
        history.step(done)
        assert outcome(history) == "", history.events[-1]


@pytest.mark.parametrize("wait", [bash("sleep 30; check", "not yet"), job("[job job-1 runs, 9 s]")])
def test_waiting_is_not_for_ever(wait):
    assert requests_until_stopped([wait]) == (WAITING, 2 * WAITING)


def test_two_edits_that_undo_each_other_are_no_progress():
    there, back = edit("a", "one", "two"), edit("a", "two", "one")
    read_first = read("a", "one")
    history = History().step(read_first).steps([there, back] * 3)
    assert outcome(history) == ""
    history.step(there)
    assert outcome(history) == "cycle"


def test_the_part_of_an_output_that_was_not_shown_counts(tmp_path):
    history = History()
    for number in range(4):
        full = tmp_path / f"bash-000000-{number}.txt"
        full.write_text(f"begin\n{number * 7}\nend")
        history.step(bash("./report", "begin … end", full=str(full)))
    assert outcome(history) == ""
    for number in range(4):
        (tmp_path / f"bash-000000-{number}.txt").write_text("begin\n7\nend")
    assert outcome(history) == "same_result"


@pytest.mark.parametrize(("at", "counts"), [(0, True), (2_500_000, False), (4_999_999, True)])
def test_of_a_long_output_the_first_and_last_two_megabytes_count(tmp_path, at, counts):
    history = History()
    for number in range(4):
        data = bytearray(b"." * 5_000_000)
        data[at] = ord("a") + number
        (tmp_path / f"{number}.txt").write_bytes(data)
        history.step(bash("./report", "begin … end", full=str(tmp_path / f"{number}.txt")))
    assert outcome(history) == ("" if counts else "same_result")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
        ('{"a": 1, "risk": "high", "reason": "x"}', '{"a": 1, "thought": "y"}', True),
        ('{"a": 1}', '{"a": 2}', False),
        ("{not JSON", "{not JSON", True),
        ("{not JSON", "{nor this", False),
        ("[" * 100_000, "[" * 100_000, True),
        ("", "{}", True),
    ],
)
def test_calls_are_the_same_by_what_their_arguments_ask_for(one, other, is_same):
    action, _ = bash("x")

    def key(raw: str) -> str:
        call = action.tool_call_metadata.model_copy(update={"raw_arguments": raw})
        return action_key(action.model_copy(update={"tool_call_metadata": call}))

    assert (key(one) == key(other)) is is_same


def test_a_session_from_elsewhere_names_no_file_that_hangs(tmp_path):
    import os

    os.mkfifo(tmp_path / "fifo")
    history = History().steps([bash("x", "y", full=str(tmp_path / "fifo"))] * 4)
    assert outcome(history) == "same_result"
    assert outcome(History().steps([bash("x", "y", full="/dev/zero")] * 4)) == "same_result"


def test_a_message_of_the_user_begins_anew():
    history = History().steps([bash("make", "x")] * 3).user("try again")
    history.step(bash("make", "x"))
    assert outcome(history) == ""


def test_headless_a_message_at_work_changes_nothing_but_at_a_terminal_it_does():
    history = History().steps([bash("make", "x")] * 3).user("hurry", delivery="steer")
    history.step(bash("make", "x"))
    assert outcome(history, interactive=False) == "same_result"
    assert outcome(history, interactive=True) == ""


def test_a_nudge_that_was_not_answered_yet_is_waited_for():
    history = History().steps([bash("make", "x")] * 4).told("…", nudge="same_result")
    assert outcome(history) == ""


def test_one_rule_after_the_other_gets_a_nudge_each():
    history = History().steps([bash("make", "x")] * 4).told("…", nudge="same_result")
    history.steps([refused("read", "no", path="x")] * 3)
    assert outcome(history) == "same_error"
    history.told("…", nudge="same_error").steps([bash("ls", "y")] * 4)
    assert outcome(history) == "stopped"


def test_after_the_stop_a_person_may_let_it_try_again():
    history = History().steps([bash("make", "x")] * 4).told("…", nudge="same_result")
    history.steps([bash("make", "x")] * 4)
    assert outcome(history) == "stopped"
    assert outcome(history.ended("stuck")) == ""


def test_the_advice_names_what_repeats():
    found = check_progress(
        History().steps([bash("make -j8", "x")] * 4).events, State(), interactive=False
    )
    assert "`$ make -j8` had the same result 4 times" in found.content


def test_what_was_gone_back_from_does_not_count():
    from agentcli.events.actions import RewindAction

    history = History().steps([bash("make", "x")] * 3)
    history.add(RewindAction(to_event=0))
    history.step(bash("make", "x"))
    assert outcome(history) == ""


def many(*first: str, makes: int) -> list:
    """The calls of one step: these, then `make` over and over."""
    return [bash(command, "x") for command in (*first, *["make"] * makes)]


def test_an_oldest_step_of_which_only_a_part_is_looked_at_is_left_out():
    """All of these have 305 events, of which the first four or five are not looked at."""
    history = History().step(*many("other", makes=31))
    for _ in range(3):
        history.step(*many(makes=40))
    assert outcome(history) == ""
    history = History().step(*many(makes=31)).told("…", nudge="same_result")
    for _ in range(4):
        history.step(*many(makes=30))
    assert len(history.events) == 304
    assert outcome(history) == "stopped"


class Counted(list):
    """A history that counts how many of its events were looked at."""

    looked_at = 0

    def __getitem__(self, index):
        self.looked_at += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("length", [200, 4_000])
def test_a_long_turn_costs_no_more_than_a_short_one(length):
    events = Counted(History().steps([bash(f"make {n}", "x") for n in range(length)]).events)
    check_progress(events, State(), interactive=False)
    assert events.looked_at <= 301


commands = st.sampled_from(["make", "pytest", "cat a.log", "ls", "sleep 1; check"])


@settings(max_examples=200)
@given(st.lists(st.tuples(commands, st.integers(1, 3)), min_size=1, max_size=40))
def test_results_that_are_always_new_are_never_stuck(plan):
    """Whatever is done in whatever order, up to three times with the same result."""
    history = History()
    for number, (command, times) in enumerate(plan):
        for _ in range(times):
            history.step(bash(command, f"result {number} of many"))
            assert outcome(history) == ""


@settings(max_examples=100)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), st.integers(0, 30))
def test_any_short_cycle_is_stopped_wherever_it_begins(cycle, before):
    history = History().steps([bash(f"step {n}", "x") for n in range(before)])
    nudges = 0
    for number in range(12):
        history.step(bash(f"again {cycle[number % len(cycle)]}", "same"))
        found = check_progress(history.events, State(), interactive=False)
        if isinstance(found, Ending):
            break
        if found is not None:
            nudges += 1
            history.add(found)
    assert isinstance(found, Ending)
    assert nudges == 1
