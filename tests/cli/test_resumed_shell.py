"""The shell of a resumed session is where the last one was, with the variables it exported."""

from __future__ import annotations

import json
import signal

import pytest

from agentcli.sessions.session import read_session
from tests.cli.test_run import wait_for
from tests.scripted import bash
from tests.server import Call, Reply

SHOW = {"command": 'echo "<$FOO>" "${HOME-unset}"; pwd'}


def last_result(server) -> str:
    """What the model was told last, by the tool."""
    return json.dumps(server.requests[-1].body["messages"][-1], ensure_ascii=False)


def test_they_survive_a_kill_in_the_middle_of_a_later_command(agent, serve):
    (agent.workspace / "sub").mkdir()
    busy = "export FOO=lost; : > ../begun; sleep 1000"
    script = [bash("export FOO=bar; cd sub"), bash(busy)]
    server = serve([*script, Reply("", [Call("bash", SHOW)]), Reply("Still set.")])
    process = agent.use(server).start("run", "set it")
    wait_for(agent.workspace / "begun", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    agent.ok("resume", "--last")
    assert f"<bar> {agent.home}\\n{agent.workspace}/sub" in last_result(server)


def test_a_session_that_ended_keeps_nothing_of_its_interpreters(agent, serve):
    code = Call("python", {"code": "print(6 * 7)"})
    agent.use(serve([bash("sleep 100 & echo hi"), Reply("", [code]), Reply("42.")]))
    assert agent("run", "count").stdout == "42.\n"
    left = {entry.name for entry in agent.sessions[0].iterdir()}
    assert not left & {"shell", "python"}
    assert {"events", "tmp", "state.pkl"} <= left


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CI_TOKEN", "value-of-" + "the-token"), ("HEADER", "Bearer sk-" + "x" * 30)],
    ids=["by its name", "by its form"],
)
def test_a_secret_is_not_stored_and_the_model_is_told_its_name(agent, serve, variable, value):
    (agent.workspace / ".env").write_text(f"{variable}='{value}'\nFOO=bar\n")
    show = f'echo "<${variable}> <$FOO>"'
    server = agent.asks(
        serve([bash("set -a; . ./.env"), Reply("Set."), bash(show), Reply("I see.")])
    )
    agent("run", "set it")
    stored = read_session(agent.sessions[0]).events
    assert not any(value in event.model_dump_json() for event in stored)
    agent.ok("resume", "--last", "show it")
    told = last_result(server)
    assert "<> <bar>" in told
    assert f"not restored: {variable}" in told
