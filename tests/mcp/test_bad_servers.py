"""Servers that hang, flood, die or break off: the run goes on, and everybody is told."""

from __future__ import annotations

from subprocess import SubprocessError

import anyio
import pytest

from agentcli.mcp.connection import Connection
from agentcli.mcp.values import HttpServer, ServerPlan
from tests.mcp.conftest import records, results, told
from tests.server import Call, Reply

ALL = ("--allow", "mcp__plain__*")


def call(tool: str, **arguments: object) -> Reply:
    return Reply("", [Call(f"mcp__plain__{tool}", arguments)])


def errors(agent) -> list[dict]:
    return [each for each in records(agent) if each.get("observation") == "error"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("silent", "it did not answer within 1 s"),
        ("crash", "it ended; it said: no such database"),
        ("endless", "it sent a message of more than 16 MB"),
    ],
)
def test_a_server_that_does_not_start_is_left_out(agent, serve, server, mode, said):
    server("plain", "good")
    server("bad", mode, start_timeout_s=1.0 if mode == "silent" else 30.0)
    model = serve([call("echo", text="all the same"), Reply("done")])
    run = agent.use(model)("run", *ALL, "go on")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    assert f"the tool server bad is left out: {said}" in run.stderr
    assert f"the tool server bad is left out: {said}" in told(model, 0)
    assert results(agent)[0]["content"] == "all the same"


def test_whatever_goes_wrong_at_the_start_is_told(monkeypatch, tmp_path):
    def refuse(*_: object) -> None:
        raise SubprocessError("no sandbox")

    monkeypatch.setattr("agentcli.mcp.connection.http_streams", refuse)
    connection = Connection(ServerPlan("bad", HttpServer("http://127.0.0.1/")), tmp_path)
    anyio.run(connection.run)
    assert connection.settled.is_set()
    assert connection.why_not == "it violated the protocol (SubprocessError)"


def test_a_server_that_fails_in_a_call_is_started_once_more(agent, serve, server):
    server("plain", "chatty")
    calls = [call("half"), call("echo", text="back"), call("die"), call("echo", text="?")]
    model = serve([*calls, Reply("done")])
    run = agent.use(model)("run", *ALL, "go on")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    half, died, gone = errors(agent)
    assert "it sent a broken message. Its effect is unknown." in half["content"]
    assert results(agent)[0]["content"] == "back"
    assert died["content"].endswith("Its effect is unknown. It is left out from now on.")
    assert "is left out" in gone["content"]
    assert "the tool server plain is being restarted: it sent a broken message" in run.stderr
    assert "the tool server plain is left out: it ended" in run.stderr


@pytest.mark.campaign
def test_a_server_that_floods_takes_neither_time_nor_memory_for_ever(agent, serve, server):
    server("plain")
    model = serve([call("flood"), Reply("done")])
    code, _, peak = agent.use(model).measured("run", *ALL, "go on")
    assert code == 0
    assert "it sent far more than anybody asked for" in errors(agent)[0]["content"]
    assert peak < 300


def test_a_call_has_a_time_limit(agent, serve, server):
    notes = agent.workspace / "notes"
    server("plain", timeout_s=0.5, env={"SERVER_NOTES": str(notes)})
    model = serve([call("slow"), call("echo", text="still here"), Reply("done")])
    assert agent.use(model)("run", *ALL, "go on").returncode == 0
    assert "did not answer within 0.5 s" in errors(agent)[0]["content"]
    assert results(agent)[0]["content"] == "still here"
    assert "notifications/cancelled" in notes.read_text()


def test_an_interrupt_is_told_to_the_server_and_the_conversation_goes_on(
    agent, serve, server, talk
):
    notes = agent.workspace / "notes"
    server("plain", env={"SERVER_NOTES": str(notes)})
    model = serve([call("slow"), call("echo", text="still here"), Reply("done")])
    agent.use(model)
    terminal = talk(*ALL, "go on")
    terminal.until("1/2 half way")
    terminal.type("\x1b").until("interrupted")
    terminal.type("and now?\r").until("done in")
    assert "notifications/cancelled" in notes.read_text()
    assert notes.read_text().count("start") == 1
    assert results(agent)[0]["content"] == "still here"
