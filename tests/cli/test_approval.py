"""What runs unasked when nobody can be asked, and how a run ends that needed somebody."""

from __future__ import annotations

import json

import pytest

from tests.conftest import git
from tests.server import Call, Reply

WANTS_NETWORK = {"command": "touch fetched", "network": True, "reason": "to fetch a package"}


def test_a_run_that_needed_approval_exits_5_and_says_what_for(agent, serve):
    server = serve([Reply("", [Call("bash", WANTS_NETWORK)]), Reply("I could not fetch it.")])
    done = agent.use(server)("run", "x")
    assert done.returncode == 5
    assert "approval was needed" in done.stderr
    assert "--allow" in done.stderr
    assert "Not allowed" in str(server.requests[-1].body)
    assert "say at the end what it was needed for" in str(server.requests[-1].body)


def test_a_refused_call_that_the_model_worked_around_does_no_harm(agent, serve):
    calls = [Call("bash", WANTS_NETWORK), Call("bash", {"command": "echo done another way"})]
    agent.use(serve([Reply("", calls[:1]), Reply("", calls[1:]), Reply("Done.")]))
    assert agent("run", "x").returncode == 0


def test_what_was_not_run_stays_so_when_the_session_is_resumed(agent, serve):
    calls = [
        Call("bash", WANTS_NETWORK),
        Call("bash", {"command": "touch second"}),
        Call("finish", {"message": "done"}),
    ]
    server = serve([Reply("", calls), Reply("No network."), Reply("Still none.")], sessions=2)
    assert agent.use(server)("run", "x").returncode == 5
    assert agent("resume", "--last", "go on").returncode == 0
    assert not (agent.workspace / "second").exists()
    told = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert told[0].startswith("Not allowed: it wants network access; ")
    assert told[0].endswith(
        "Nothing of this call was run. Do without it, and say at the end what it was needed for."
    )
    assert told[1:] == ["Not run: the call before it was refused."] * 2
    shown = agent("sessions", "show").stdout
    assert shown.count("not run: the call before it was refused") == 2, shown


def test_a_refusal_quotes_its_part_and_offers_the_rest(agent, serve):
    data = agent.workspace / "model.bin"
    with data.open("wb") as file:
        file.truncate(60_000_000)
    command = "make clean; rm model.bin; git status"
    server = serve([Reply("", [Call("bash", {"command": command})]), Reply("Not then.")])
    assert agent.use(server)("run", "x").returncode == 5
    told = str(server.requests[-1].body)
    assert "it would delete model.bin, which no checkpoint holds (`rm model.bin`)" in told
    assert "Nothing of this call was run. Send the rest without it" in told
    assert data.exists()


def test_what_throws_work_away_runs_unasked_and_is_undone(agent, serve, repository):
    """In a repository, beside a large folder that tools make and large data that git ignores."""
    (repository / "mine").mkdir()
    (repository / "mine" / "notes").write_text("mine")
    (repository / "README.md").write_text("not committed")
    git(repository, "branch", "try")
    for name in ("node_modules/x", "data/x"):
        (repository / name).parent.mkdir()
        with (repository / name).open("wb") as file:
            file.truncate(300_000_000)
    (repository / ".gitignore").write_text("node_modules/\ndata/\n")
    lines = [
        "git reset --hard",
        "git branch -D try; sleep 100 & kill -9 $!",
        "rm -r mine node_modules",
        "python3 - <<'EOF'\nopen('x.sql', 'w').write('DROP TABLE x')\nEOF\nrm -rf data",
    ]
    calls = [Call("bash", {"command": line}) for line in lines]
    server = serve([*(Reply("", [call]) for call in calls), Reply("Done.")])
    assert agent.use(server)("run", "x").returncode == 5
    told = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert [text for text in told[:3] if "Not allowed" in text] == []
    assert "it would delete data, which no checkpoint holds (`rm -rf data`)" in told[3]
    assert (repository / "data/x").exists()
    assert not (repository / "mine").exists()
    assert not (repository / "x.sql").exists()
    undone = agent("undo", "3")
    assert undone.returncode == 0, undone.stderr
    assert (repository / "mine" / "notes").read_text() == "mine"
    assert (repository / "README.md").read_text() == "not committed"
    assert "try" in git(repository, "branch")


def test_an_allowed_command_runs(agent, serve):
    server = serve([Reply("", [Call("bash", WANTS_NETWORK)]), Reply("Done.")])
    done = agent.use(server)("run", "--allow", "bash(touch:*)", "x")
    assert done.returncode == 0, done.stderr
    assert "Not allowed" not in str(server.requests[-1].body)


def test_plan_mode_reads_and_changes_nothing(agent, serve):
    calls = [
        Call("bash", {"command": "ls"}),
        Call("bash", {"command": "touch made"}),
        Call("write", {"path": "made", "content": "x"}),
        Call("python", {"code": "open('made', 'w')"}),
    ]
    server = serve([*(Reply("", [call]) for call in calls), Reply("The plan.")])
    done = agent.use(server)("run", "--approval", "plan", "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The plan.\n"
    assert not (agent.workspace / "made").exists()
    assert str(server.requests[-1].body).count("Not allowed") == 3


def test_a_denied_command_never_runs(agent, serve):
    call = Call("bash", {"command": "cd . && touch made"})
    agent.use(serve([Reply("", [call]), Reply("Done.")]))
    agent("run", "--yolo", "--deny", "bash(touch:*)", "x")
    assert not (agent.workspace / "made").exists()


def test_without_a_sandbox_everything_but_reading_needs_approval(agent, serve):
    calls = [
        Call("bash", {"command": "cat seen"}),
        Call("write", {"path": "made", "content": "x"}),
        Call("bash", {"command": "touch made"}),
    ]
    (agent.workspace / "seen").write_text("what is there")
    server = serve([Reply("", calls), Reply("Done.")])
    assert agent.use(server)("run", "--no-sandbox", "x").returncode == 5
    assert "what is there" in str(server.requests[-1].body)
    assert not (agent.workspace / "made").exists()


@pytest.mark.parametrize("flags", [["--yolo"], ["--yolo", "--no-sandbox"]])
def test_hard_blocks_hold_in_every_mode(agent, serve, flags):
    (agent.home / "precious").write_text("x")
    calls = [
        Call("bash", {"command": f"rm -rf {agent.home}"}),
        Call("bash", {"command": "rm -rf $HOME/"}),
        Call("bash", {"command": "sh -c 'cd && rm -rf ./*'"}),
        Call("write", {"path": str(agent.home / "state" / "x"), "content": "x"}),
    ]
    server = serve([Reply("", [call]) for call in calls] + [Reply("Done.")])
    agent.use(server)("run", *flags, "x")
    assert (agent.home / "precious").exists()
    assert str(server.requests[-1].body).count("Not allowed") == len(calls)


def test_a_model_may_judge_the_risk(agent, serve):
    steps = [Reply("", [Call("bash", {"command": "touch made"})])]
    server = serve([*steps, Reply("high: it is not asked for"), Reply("Then not.")], sessions=3)
    judged = ("--set", 'security.analyzers=["judge"]', "--set", "security.confirm=confirm_risky")
    done = agent.use(server)("run", *judged, "x")
    assert done.returncode == 5, done.stderr
    assert "it is not asked for" in done.stderr
    assert not (agent.workspace / "made").exists()
    assert "touch made" in str(server.requests[1].body["messages"])
    cost = json.loads(agent("sessions", "show", "--cost", "--json").stdout)
    assert "judge" in str(cost)
