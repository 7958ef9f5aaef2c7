"""agent bisect: the step that broke what a check checks is found in few checks, and beside the
session and its workspace."""

from __future__ import annotations

import json
import shutil
import signal
from math import ceil, log2

import pytest

from agentcli.app.bisect import first_index
from tests.scripted import bash, scripted, write
from tests.server import Reply
from tests.shell.shells import until

FAULT = 37
CHECK = "echo looked at >> seen; touch /tmp/seen; ! grep -rq wrong src"


@pytest.fixture
def long_session(agent, tmp_path):
    """60 steps, of which one writes something wrong."""
    steps = [write(f"src/{n}.py", "wrong\n" if n == FAULT else "right\n") for n in range(1, 61)]
    model = scripted(tmp_path / "model", *steps, Reply("Done."))
    done = agent("run", "-m", model, "write sixty files")
    assert done.returncode == 0, done.stderr
    return agent.sessions[0]


def left_over(agent) -> list[object]:
    places = [agent.home / ".cache" / "agent" / "scratch", agent.home / "state" / "sessions.scrap"]
    return [entry for place in places if place.exists() for entry in place.iterdir()]


@pytest.mark.campaign
def test_the_step_that_broke_it_is_found_in_seven_checks(agent, long_session):
    def found(*flags: str) -> dict:
        done = agent("bisect", "--check", CHECK, "--json", *flags)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    events = sorted((long_session / "events").iterdir())
    first = found()
    assert (first["result"], first["step"]) == ("found", FAULT)
    assert first["checks_run"] <= 7
    assert first["actions"] == [f"write src/{FAULT}.py"]
    assert "+wrong" in first["diff"]
    assert found()["checks_run"] == 0
    assert found("--again")["checks_run"] == first["checks_run"]
    told = agent("bisect", "--check", CHECK)
    assert told.stdout.startswith(f"step {FAULT} is the first after which the check fails")
    assert "+wrong" in told.stdout
    assert "known from before" in told.stderr
    assert sorted((long_session / "events").iterdir()) == events
    assert not (agent.workspace / "seen").exists()
    assert not left_over(agent)


@pytest.fixture
def small_session(agent, tmp_path):
    model = scripted(
        tmp_path / "model",
        bash("printf '#!/bin/sh\\n' > gone-after-two; chmod +x gone-after-two"),
        bash("rm gone-after-two"),
        bash("touch done"),
        Reply("Done."),
    )
    (agent.workspace / "gone-after-two").write_text("#!/bin/sh\n")
    (agent.workspace / "gone-after-two").chmod(0o755)
    assert agent("run", "-m", model, "three steps").returncode == 0
    return agent


COMES_TO = [
    ("true", [], 1, "there is no step after which the check fails: at the end it passes"),
    ("false", [], 1, "no step is the first after which the check fails: it fails before"),
    ("cat none", [], 1, "printed before the first step:\n  cat: none: No such file"),
    ("cat none", ["--until-passes"], 1, "printed after step 3:\n  cat: none: No such file"),
    ("test -e done", ["--until-passes"], 0, "step 3 is the first after which the check passes"),
    ("false", ["--until-passes"], 1, "no step after which the check passes: at the end it"),
    ("./gone-after-two", [], 0, "step 2 is the first after which the check fails"),
    ("no-such-program -q", [], 2, "there is no command 'no-such-program' here"),
    ("./no-such-program", [], 2, "the check can't be run: bash: ./no-such-program: No such"),
    ("", [], 2, "--check is empty"),
    ("true", ["--max-time", "soon"], 2, "--max-time soon: it must be a time such as"),
]
"""A check, flags, exit code and what is said."""


def test_what_a_check_can_come_to(small_session):
    for check, flags, code, said in COMES_TO:
        done = small_session("bisect", "--check", check, *flags)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done


def test_a_check_that_can_not_be_relied_on_is_told(small_session):
    def told(*flags: str) -> str:
        done = small_session("bisect", "--check", "test ! -e done", *flags)
        assert done.stdout.startswith("step 3 is the first after which the check fails")
        return done.stderr

    assert "not reliable" not in told()
    file = small_session.sessions[0] / "checks.json"
    first, *others = json.loads(file.read_bytes())
    other = {**first, "result": {**first["result"], "exit_code": 0}}
    file.write_text(json.dumps([first, other, *others]))
    said = told("--runs", "2")
    assert "the check is not reliable: after step 3 it failed 1 of 2 times" in said
    assert "check 1 of at most 3: after step 3 failed 1 of 2 times · known from before" in said
    file.write_text("damaged")
    assert "known from before" not in told()


def test_a_check_is_held_as_commands_are_and_stopped_in_time(small_session):
    outside = small_session.home / "outside"
    outside.mkdir()
    where = small_session.workspace
    check = f"pwd; touch here {outside}/x; sleep 300"
    done = small_session("bisect", "--check", check, "--max-time", "0.3", "--json")
    told = json.loads(done.stdout)
    assert [state["exit_codes"] for state in told["states"]] == [[None]] * len(told["states"])
    if shutil.which("bwrap"):
        # What is installed by its path is the copy's, too.
        assert all(state["tail"].startswith(f"{where}\n") for state in told["states"])
    assert not list(outside.iterdir())
    assert not (where / "here").exists()


@pytest.mark.campaign
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_bisection_that_is_ended(small_session, number):
    process = small_session.start("bisect", "--check", "touch begun; sleep 300")
    copies = small_session.home / ".cache" / "agent" / "scratch"
    until(lambda: bool(list(copies.glob("*/*/begun"))))
    process.send_signal(number)
    process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert left_over(small_session)
        small_session("sessions", "list")
        small_session("undo")
    else:
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert not left_over(small_session)


def test_a_damaged_session_is_none_to_judge_by(small_session):
    """Nor one to go on with in copies."""
    session = small_session.sessions[0]
    (session / "state.pkl").unlink()
    for page in (session / "event_cache").iterdir():
        page.unlink()
    (session / "events" / "000000009.json").write_text("{")
    for command in (["bisect"], ["resume", session.name, "--tries", "2", "more"]):
        done = small_session(*command, "--check", "true")
        assert done.returncode == 1
        assert f"session {session.name} is damaged" in done.stderr
        assert f"agent sessions repair {session.name}" in done.stderr
    assert not left_over(small_session)


def test_any_first_index_is_found_by_halving():
    for count in range(1, 130):
        for fault in range(count + 1):
            asked: list[int] = []

            def holds(index: int, fault: int = fault, asked: list[int] = asked) -> bool:
                asked.append(index)
                return index >= fault

            assert first_index(count, holds) == (fault if fault < count else None)
            assert len(set(asked)) == len(asked) <= 1 + ceil(log2(count))
