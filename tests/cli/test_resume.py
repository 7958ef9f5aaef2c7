"""A session that was cut short goes on: nothing lost, nothing run twice, the model told."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from agentcli.sessions.session import read_session
from tests.cli.test_run import wait_for
from tests.conftest import MODELS
from tests.server import Call, Reply

BUSY = "echo once >> effects; echo > begun.tmp; mv begun.tmp begun; sleep 1000"


@pytest.mark.parametrize("api", MODELS)
def test_killed_in_the_middle_of_a_command(agent, serve, api):
    server = serve(
        [
            Reply("First.", [Call("bash", {"command": "echo first >> effects"})]),
            Reply("Busy.", [Call("bash", {"command": BUSY}), Call("read", {"path": "effects"})]),
            Reply("I see; done."),
        ]
    )
    process = agent.use(server, MODELS[api]).start("run", "do two things")
    wait_for(agent.workspace / "begun", process)
    assert f"in use by {process.pid}" in agent("sessions", "list").stdout
    assert json.loads(agent("sessions", "list", "--json").stdout)[0]["in_use_by"] == process.pid
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "interrupted" in agent("sessions", "list").stdout
    assert json.loads(agent("sessions", "list", "--json").stdout)[0]["in_use_by"] is None
    before = read_session(agent.sessions[0]).events
    done = agent("resume", "--last")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "I see; done.\n"
    after = read_session(agent.sessions[0]).events
    assert after[: len(before)] == before
    assert (agent.workspace / "effects").read_text() == "first\nonce\n"
    told = json.dumps(server.requests[-1].body)
    assert "Its effects are unknown" in told
    assert "Not started" in told


def test_a_message_can_be_added_and_the_folder_is_where_it_was(agent, serve):
    (agent.workspace / "sub").mkdir()
    server = serve(
        [
            Reply("", [Call("bash", {"command": "cd sub"})]),
            Reply("There."),
            Reply("", [Call("bash", {"command": "pwd"})]),
            Reply("Still there."),
        ]
    )
    agent.use(server)
    agent("run", "go to sub", "--name", "mine")
    done = agent("resume", "mine", "where are you?", cwd=Path("/"))
    assert done.stdout == "Still there.\n", done.stderr
    assert str(agent.workspace / "sub") in json.dumps(server.requests[-1].body)


@pytest.mark.parametrize(
    "way", [["run", "-c", "more"], ["resume", "--last", "more"]], ids=["run -c", "resume --last"]
)
def test_the_newest_session_here(agent, serve, way):
    agent.use(serve([Reply("one"), Reply("two")]))
    agent("run", "start")
    assert agent(*way).stdout == "two\n"
    assert len(agent.sessions) == 1


def test_a_session_keeps_its_model_unless_another_is_named(agent, serve):
    server = serve([Reply("one"), Reply("two"), Reply("three")], sessions=2)
    agent.use(server)
    agent("run", "start", "-m", "openai-chat/first")
    agent("resume", "--last", "more")
    agent("resume", "--last", "more", "-m", "openai/second")
    assert [request.body["model"] for request in server.requests] == ["first", "first", "second"]
    assert server.requests[2].api == "responses"


def test_a_finished_session_wants_to_hear_what_comes_next(agent, serve):
    agent.use(serve([Reply("one")]))
    agent("run", "start")
    done = agent("resume", "--last")
    assert done.returncode == 2
    assert "nothing left to do" in done.stderr


def test_a_session_in_use_names_its_holder(agent, serve):
    server = serve([Reply("", [Call("bash", {"command": BUSY})])])
    process = agent.use(server).start("run", "x")
    wait_for(agent.workspace / "begun", process)
    done = agent("resume", "--last", "more")
    assert done.returncode == 2
    assert f"in use by process {process.pid}" in done.stderr
    assert agent("sessions", "show").returncode == 0
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143


def test_a_resumed_session_begins_its_requests_as_before(agent, serve):
    """The fixture checks it: system text, tools and messages are those of the first process."""
    agent.use(serve([Reply("one"), Reply("two")]))
    agent("run", "start")
    agent("resume", "--last", "more", "--set", "tools.enable_jupyter=true")


def test_losing_the_state_file_or_finding_a_hostile_one_loses_nothing(agent, serve):
    agent.use(serve([Reply("one"), Reply("two"), Reply("three")]))
    agent("run", "start")
    state = agent.sessions[0] / "state.pkl"
    state.unlink()
    assert agent("resume", "--last", "more").stdout == "two\n"
    state.write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    assert agent("resume", "--last", "more").stdout == "three\n"


def test_a_hole_in_the_middle_is_named_and_nothing_is_written(agent, serve):
    agent.use(serve([Reply("one")]))
    agent("run", "start")
    (agent.sessions[0] / "events" / "000000003.json").unlink()
    done = agent("resume", "--last", "more")
    assert done.returncode == 1
    assert "000000003.json is missing" in done.stderr
    shown = agent("sessions", "show")
    assert "start" in shown.stdout
    assert "000000003.json is missing" in shown.stderr


def test_the_model_is_told_when_another_sandbox_holds_than_before(agent, serve):
    server = serve([Reply("One."), Reply("Two."), Reply("Three.")])
    agent.use(server)
    agent("run", "x")
    agent("run", "-c", "--no-sandbox", "y")
    assert "now run without a sandbox" in json.dumps(server.requests[1].body)
    agent("run", "-c", "z")
    told = json.dumps(server.requests[2].body)
    assert told.count("now run in a sandbox") == 1
    assert f"write to {agent.workspace} only" in told
