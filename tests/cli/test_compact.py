"""`agent compact`: what it shows, what it records, and what the next request is made of."""

from __future__ import annotations

import json

import pytest

from agentcli.events.actions import CondensationAction
from agentcli.sessions.session import read_session
from tests.server import Call, HttpError, Reply

SUMMARY = "## Goal\n- count [2]\n\n## Done\n1. counted to 400 [5-9]"


def steps(count):
    return [Reply(f"Step {n}.", [Call("bash", {"command": f"seq {n} 400"})]) for n in range(count)]


def is_condenser(request) -> bool:
    return "summary of a coding agent's session" in json.dumps(request.body)[:3_000]


@pytest.fixture
def worked(agent, serve):
    """A session of some steps, and a server whose model writes summaries."""
    script = iter([*steps(8), Reply("Counted."), Reply("More.")])
    server = serve(
        play=lambda request: Reply(SUMMARY) if is_condenser(request) else next(script), sessions=9
    )
    assert agent.use(server)("run", "count").returncode == 0
    return server


def events_of(agent):
    return read_session(agent.sessions[0]).events


def test_a_preview_shows_the_summary_and_leaves_the_session_as_it_is(agent, worked):
    before = events_of(agent)
    session = agent.sessions[0].name
    done = agent("compact", session, "--preview", "--focus", "the number 400")
    assert done.returncode == 0, done.stderr
    assert "counted to 400 [5-9]" in done.stdout
    assert "would be out of the model's sight" in done.stderr
    assert "the summary cost $" in done.stderr
    assert "the number 400" in json.dumps(worked.requests[-1].body)
    *same, paid = events_of(agent)
    assert same == before
    assert isinstance(paid, CondensationAction)
    assert list(paid.forgotten_ids()) == []
    assert paid.llm_metrics.cost_usd > 0, "what a preview cost is a cost of the session"
    assert agent("resume", session, "and more").returncode == 0
    assert "Step 2." in json.dumps(worked.requests[-1].body)


def test_the_next_request_has_the_summary_in_place_of_the_steps(agent, worked):
    session = agent.sessions[0].name
    done = agent("compact", session, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["condensed"]
    assert not told["preview"]
    assert told["tokens_after"] < told["tokens_before"] / 2
    assert told["cost_usd"] > 0
    (action,) = [e for e in events_of(agent) if isinstance(e, CondensationAction)]
    assert list(action.forgotten_event_ids) == told["forgotten_event_ids"]
    assert action.source == "user"
    cost = json.loads(agent("sessions", "show", session, "--cost", "--json").stdout)
    assert "condenser" in [row["part"] for row in cost["rows"]]
    assert agent("resume", session, "and more").returncode == 0
    sent = json.dumps(worked.requests[-1].body)
    assert "counted to 400" in sent
    assert "Step 2." not in sent
    assert "Step 7." in sent
    assert "[2] dealt with: " in sent, "what was answered is not asked again"


def test_without_a_summariser_it_is_made_of_the_events(agent, serve):
    script = iter([*steps(8), Reply("Counted.")])
    refused = HttpError(400, "invalid_request_error", "no summaries here")
    server = serve(
        play=lambda request: refused if is_condenser(request) else next(script), sessions=9
    )
    agent.use(server)("run", "count")
    done = agent("compact", agent.sessions[0].name)
    assert done.returncode == 0, done.stderr
    assert "$ seq 1 400 → exit 0" in done.stdout
    assert "summed up without a model" in done.stderr
    assert "no summaries here" in done.stderr


@pytest.mark.parametrize("preview", [True, False])
def test_a_secret_of_the_environment_is_masked_in_the_summary(agent, serve, preview):
    secret = "hunter2-is-not-a-good-password"
    script = iter([*steps(8), Reply("Counted.")])
    told = Reply(f"{SUMMARY}\n\nThe password is {secret}.")
    server = serve(play=lambda request: told if is_condenser(request) else next(script), sessions=9)
    agent.use(server)("run", "count")
    agent.env["DB_PASSWORD"] = secret
    session = agent.sessions[0]
    done = agent("compact", session.name, *(["--preview"] if preview else []))
    assert done.returncode == 0, done.stderr
    assert "The password is " in done.stdout
    assert secret not in done.stdout + done.stderr
    kept = [path for path in session.rglob("*") if path.is_file()]
    assert [path for path in kept if secret.encode() in path.read_bytes()] == []


def test_a_short_session_has_nothing_to_condense(agent, serve):
    agent.use(serve([Reply("Hello.")]))("run", "hi")
    done = agent("compact", agent.sessions[0].name)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "nothing to condense" in done.stderr


def test_an_unknown_session_is_a_usage_error(agent):
    assert agent("compact", "nonesuch").returncode == 2


def test_a_bad_condenser_is_named_before_anything_is_asked(agent, serve):
    server = serve([])
    done = agent.use(server)("run", "x", "--set", "memory.condenser=windo")
    assert done.returncode == 3
    assert "did you mean window" in done.stderr
    done = agent("run", "x", "--set", "memory.low_water=0.8")
    assert done.returncode == 3
    assert "low_water must be below" in done.stderr


def hooked(agent, script: str) -> None:
    folder = agent.home / ".config/agent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        f"[[hooks.PreCompact]]\nsandboxed = false\ncommand = {json.dumps(script)}\n"
    )


def test_a_hook_is_asked_before_a_session_is_condensed(agent, worked):
    hooked(agent, f"cat > {agent.home}/told; echo 'not before lunch' >&2; exit 2")
    session, asked = agent.sessions[0].name, len(worked.requests)
    done = agent("compact", session)
    assert done.returncode == 1
    assert "not before lunch" in done.stderr
    assert len(worked.requests) == asked, "no summary is paid for"
    assert not any(isinstance(event, CondensationAction) for event in events_of(agent))
    told = json.loads((agent.home / "told").read_text())
    assert (told["hook_event_name"], told["reason"]) == ("PreCompact", "asked_for")
    assert told["cwd"] == str(agent.workspace)


def test_the_hook_runs_in_the_sandbox_of_the_sessions_commands(agent, worked):
    hooked(agent, f"touch here; touch {agent.home}/there; exit 0")
    config = agent.home / ".config/agent/config.toml"
    config.write_text(config.read_text().replace("sandboxed = false\n", ""))
    done = agent("compact", agent.sessions[0].name)
    assert done.returncode == 0, done.stderr
    assert (agent.workspace / "here").exists()
    assert not (agent.home / "there").exists()


CROWDED = [
    *("--set", "memory.max_size=6", "--set", "memory.keep_first=1"),
    *("--set", "memory.condenser=llm_summary"),
]
"""Condensed for the number of events, long before the window is full."""


def test_a_hook_that_puts_it_off_keeps_the_summariser_from_being_paid(agent, serve):
    hooked(agent, f"echo asked >> {agent.home}/asked; exit 2")
    script = iter([*steps(8), Reply("Counted.")])
    server = serve(
        play=lambda request: Reply(SUMMARY) if is_condenser(request) else next(script), sessions=9
    )
    done = agent.use(server)("run", "count", *CROWDED)
    assert done.returncode == 0, done.stderr
    assert not any(map(is_condenser, server.requests))
    assert (agent.home / "asked").read_text().count("asked") >= 4, "at each step anew"
