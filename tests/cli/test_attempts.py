"""agent run --tries: several tries side by side, of which the best is brought in."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.sessions.finder import state_of
from tests.cli.test_bisect import left_over
from tests.cli.test_limits import greedy, priced
from tests.conftest import MODELS, git
from tests.scripted import bash, scripted, write
from tests.server import Reply, Usage
from tests.shell.shells import until

CHECK = "touch checked; grep -q 42 answer.txt"
WRONG = (write("answer.txt", "41\n"), Reply("It is 41."))
RIGHT = (bash("rm old.txt; echo 42 > answer.txt; git add answer.txt"), Reply("It is 42."))
LONG = (write("answer.txt", "42\n"), write("why.txt", "a\nb\nc\n"), Reply("42, at length."))
STUCK = (bash("echo 42 > answer.txt; touch begun; sleep 300"), Reply("Never said."))


@pytest.fixture
def tried(agent, tmp_path):
    """Runs `agent` with a try for each of these scripts in a repository."""
    git(agent.workspace, "init", "-q")
    (agent.workspace / "old.txt").write_text("old\n")
    git(agent.workspace, "add", ".")
    git(agent.workspace, "commit", "-qm", "start")

    def arguments(*scripts: tuple[Reply, ...], check: str = CHECK) -> list[str]:
        made = [scripted(tmp_path / f"model-{n}", *each) for n, each in enumerate(scripts)]
        models = [word for model in made for word in ("--try-model", model)]
        return ["run", "--check", check, *models, "the answer?"]

    return arguments


def result_of(done) -> dict:
    return json.loads(done.stdout.splitlines()[-1])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".git")


def test_the_best_of_three_is_brought_in_and_can_be_taken_back(agent, tried):
    done = agent(*tried(WRONG, RIGHT, LONG), "--name", "answered")
    assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
    rows = [line for line in done.stderr.splitlines() if " done " in f"{line} "]
    assert sum(row.startswith("→ 2") for row in rows) == 1
    assert "the best of 3 tries" in done.stderr
    assert files(agent.workspace) == ["answer.txt"]
    assert git(agent.workspace, "status", "--porcelain") == "A  answer.txt\n D old.txt\n"
    assert len(agent.sessions) == 3
    assert not left_over(agent)
    [here] = json.loads(agent("sessions", "list", "--json").stdout)
    assert (here["workspace"], here["name"]) == (str(agent.workspace), "answered")
    found = agent("bisect", "--check", CHECK, "--until-passes")
    assert found.stdout.startswith("what was brought in after step 2 (event ")
    agent.ok("undo")
    assert files(agent.workspace) == ["old.txt"]
    assert git(agent.workspace, "status", "--porcelain") == ""


def test_without_one_that_passes_nothing_is_touched(agent, tried):
    done = agent(*tried(WRONG, WRONG, (Reply("I can't."),)), "--set", "ui.title=false")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "no try passed the check; the workspace is as it was" in done.stderr
    assert "exit 1" in done.stderr
    assert files(agent.workspace) == ["old.txt"]
    assert not left_over(agent)
    # The files of each are in its snapshots.
    tries = [folder.name for folder in agent.sessions]
    copies = [agent.workspace.with_name(name) for name in tries]
    for name, copy in zip(tries, copies, strict=True):
        agent.ok("fork", name, "--dir", str(copy))
    assert sorted(map(files, copies)) == [["answer.txt", "old.txt"]] * 2 + [["old.txt"]]


@pytest.mark.campaign
def test_a_check_that_can_not_be_run_is_told(agent, tried):
    done = agent(*tried(RIGHT, WRONG, check="./no-such-script"))
    assert done.returncode == 1
    assert "the check can't be run: bash: ./no-such-script: No such file" in done.stderr


@pytest.mark.campaign
def test_tries_are_kept_where_sessions_are(agent, tried):
    agent.env["AGENT_STORE"] = f"sqlite:///{agent.home}/sessions.sqlite"
    done = agent(*tried(WRONG, RIGHT))
    assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
    every = json.loads(agent("sessions", "list", "--all", "--json").stdout)
    assert sorted(each["steps"] for each in every) == [2, 2]
    found = agent("bisect", "--check", "! grep -q 42 answer.txt")
    assert "+42" in found.stdout, found.stderr
    agent.ok("undo")
    assert files(agent.workspace) == ["old.txt"]


@pytest.mark.campaign
def test_programs_are_told_of_each(agent, tried):
    done = agent(*tried(RIGHT, WRONG, check="grep 42 answer.txt || exit 3"), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["kind"] for line in lines[:-1]] == ["try", "try"]
    right, wrong = lines[-1]["tries"]
    assert (right["chosen"], right["check"]["tail"], right["added"]) == (True, "42", 1)
    assert (wrong["chosen"], wrong["check"]["exit_code"], wrong["exit_code"]) == (False, 3, 0)
    assert lines[-1]["session_id"] == right["session_id"]


@pytest.mark.campaign
def test_a_failure_goes_back_to_a_try_that_may_mend_it(agent, tried):
    mending = (*WRONG, bash("echo 42 > answer.txt"), Reply("It is 42, then."))
    done = agent(*tried(mending, WRONG), "--check-retries", "1", "--json")
    mended, other = result_of(done)["tries"]
    assert (mended["chosen"], mended["answer"]) == (True, "It is 42, then.")
    assert other["exit_code"] != 0
    assert (agent.workspace / "answer.txt").read_text() == "42\n"


@pytest.mark.campaign
def test_what_somebody_else_changes_meanwhile_is_left_alone(agent, tried):
    waiting = "echo 42 > answer.txt; until test -e open; do sleep 0.05; done; rm open"
    process = agent.start(*tried((bash(waiting), Reply("It is 42."))))
    copies = agent.home / ".cache" / "agent" / "scratch"
    until(lambda: bool(list(copies.glob("*/1/*/answer.txt"))))
    (agent.workspace / "mine.txt").write_text("mine\n")
    [made] = copies.glob("*/1/*/answer.txt")
    made.with_name("open").touch()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, b""), err
    assert b"the workspace was changed meanwhile (mine.txt), so nothing is brought in" in err
    assert files(agent.workspace) == ["mine.txt", "old.txt"]
    patch = agent("diff", agent.sessions[0].name).stdout
    assert "+42" in patch


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.campaign)],
)
def test_an_interrupt_ends_all(agent, tried, number, code):
    process = agent.start(*tried(STUCK, STUCK))
    copies = agent.home / ".cache" / "agent" / "scratch"
    until(lambda: len(list(copies.glob("*/*/*/begun"))) == 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert [state_of(folder).agent_state for folder in agent.sessions] == ["paused"] * 2
    assert all(folder.name in err.decode() for folder in agent.sessions)
    assert files(agent.workspace) == ["old.txt"]
    assert not left_over(agent)
    # What was done until then is kept.
    patch = agent("diff", agent.sessions[0].name)
    assert "+42" in patch.stdout


def test_a_budget_is_for_all_together(agent, serve):
    model = MODELS["chat_completions"]
    # Requests of one try come between those of others.
    agent.use(serve(play=greedy, sessions=100), model)
    priced(agent, model)
    done = agent(
        *("run", "--tries", "3", "--check", "true", "--max-budget-usd", "0.3", "--json"),
        "work for ever",
    )
    assert done.returncode == 6, done.stderr
    result = result_of(done)
    assert 0.1 < result["cost_usd"] <= 0.3
    spent = sum(state_of(folder).cost_usd for folder in agent.sessions)
    assert spent == pytest.approx(result["cost_usd"])
    assert [each["check"] for each in result["tries"]] == [None] * 3


@pytest.mark.campaign
def test_what_one_leaves_of_the_budget_is_for_the_others(agent, serve):
    cheap, dear = "openai-chat/gpt-5.5", "openai-chat/gpt-5.5-pro"
    usage = Usage(input=10_000, output=100)
    steps = [bash("echo 4 > answer.txt"), bash("echo 42 > answer.txt"), Reply("It is 42.")]

    def play(request):
        if request.body["model"] == "gpt-5.5":
            return Reply("I don't know.", usage=usage)
        done = sum(message["role"] == "assistant" for message in request.body["messages"])
        return replace(steps[done], usage=usage)

    agent.use(serve(play=play, sessions=100), cheap)
    priced(agent, cheap, f'[prices."{dear}"]\ninput = 2\noutput = 10\n')
    models = ["--try-model", cheap, "--try-model", dear]
    check = ["--check", "grep -q 42 answer.txt"]
    # Half of it is enough for two steps of 0.021, as the next could be dearer; the rest for one.
    done = agent.ok(
        "run", *models, *check, "--max-budget-usd", "0.12", "--no-summary", "--json", "x"
    )
    first, second = result_of(done)["tries"]
    assert (first["cost_usd"], second["cost_usd"]) == pytest.approx((0.021, 0.063))
    assert (second["chosen"], second["added"]) == (True, 1)
    assert (agent.workspace / "answer.txt").read_text() == "42\n"


@pytest.mark.campaign
def test_a_conversation_is_gone_on_with_in_each(agent, tmp_path):
    first = (write("answer.txt", "41\n"), Reply("It is 41."))
    model = scripted(tmp_path / "model", *first)
    agent.ok("run", "-m", model, "the answer?")
    (agent.workspace / "mine.txt").write_text("mine\n")
    models = [
        scripted(tmp_path / name, *first, bash(f"echo {name} > answer.txt"), Reply(f"It is {name}"))
        for name in ("42", "43")
    ]
    choice = [word for name in models for word in ("--try-model", name)]
    check = "grep -q 43 answer.txt && test -e mine.txt"
    done = agent("resume", "--last", "--tries", "2", "--check", check, *choice, "another one")
    assert (done.returncode, done.stdout) == (0, "It is 43\n"), done.stderr
    assert (agent.workspace / "answer.txt").read_text() == "43\n"
    shown = agent("sessions", "show").stdout
    assert "It is 41." in shown
    assert "It is 43" in shown
    agent.ok("undo")
    assert (agent.workspace / "answer.txt").read_text() == "41\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tries", "2"], "tries need a check to be judged by"),
        (["--tries", "2", "--check", "no-such-program"], "there is no command 'no-such"),
        (["--tries", "2", "--check", "true", "--set", "agent.checkpoints=false"], "need snapshots"),
        (["--tries", "2", "--check", "true", "--output-schema", "model"], "not a JSON Schema"),
    ],
)
def test_what_can_not_be_tried(agent, tmp_path, arguments, said):
    model = scripted(tmp_path / "model", *RIGHT)
    (agent.workspace / "model").write_text('{"type": "none"}')
    done = agent("run", *arguments, "-m", model, "the answer?")
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert "try 1" not in done.stderr
    assert agent.sessions == []
