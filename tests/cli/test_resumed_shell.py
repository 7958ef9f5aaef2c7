"""The shell of a resumed session is where the last one was, with the variables it exported."""

from __future__ import annotations

import json
import signal

import pytest

from agentcli.sessions.session import read_session
from tests.cli.test_run import wait_for
from tests.conftest import PYTHON
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
    assert agent("run", *PYTHON, "count").stdout == "42.\n"
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


def told_by_commands(server) -> list[str]:
    """What the model was told of each of its commands."""
    return [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool"]


def test_a_folder_that_is_gone_is_said_until_the_shell_leaves_it(agent, serve):
    fresh = Call("bash", {"command": "true", "restart": True})
    limited = Call("bash", {"command": "sleep 1000", "timeout": 0.2})
    commands = [
        *(bash("mkdir a; cd a; rmdir ../a"), Reply("", [limited]), Reply("", [fresh])),
        *(bash("mkdir a; cd a"), bash("rmdir ../a; mkdir ../a"), bash("cd ../a; pwd")),
        *(bash("mv ../a ../b; echo moved"), Reply("There.")),
    ]
    server = agent.asks(serve([*commands, bash("pwd"), Reply("Back.")]))
    agent.ok("run", "look")
    place = agent.workspace
    elsewhere = f"[{place}/a no longer exists; the shell started in {place}]"
    gone = f"[the shell's folder, {place}/a, no longer exists: cd to another]"
    removed, stopped, restarted, _, anew, within, moved = told_by_commands(server)
    assert removed == f"[exit 0, no output]\n{gone}"
    assert gone in stopped
    assert "alive, in" not in stopped
    assert restarted == f"[exit 0, no output; now in {place}]\n{elsewhere}"
    assert "was removed and made anew" in anew
    assert within == f"{place}/a"
    assert moved == f"moved\n{gone}"
    agent.ok("resume", "--last", "go on")
    assert told_by_commands(server)[-1] == f"{place}\n{elsewhere}"
