"""`agent mcp`: servers are added, listed, tried and removed; and the agent is one itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.mcp.conftest import PLAIN, records
from tests.server import Call, Reply


def test_a_server_is_added_listed_tried_and_removed(agent):
    added = agent("mcp", "add", "plain", "--env", "A=${HOME}", "--", sys.executable, str(PLAIN))
    assert added.returncode == 0, added.stderr
    assert agent("mcp", "add", "plain", "--url", "http://127.0.0.1:1/").returncode == 2
    assert agent("mcp", "add", "gone", "--url", "http://127.0.0.1:1/").returncode == 0
    plain, gone = json.loads(agent("mcp", "list", "--json").stdout)
    assert plain["command"] == f"{sys.executable} {PLAIN}"
    assert (plain["sandbox"], plain["network"]) == (True, False)
    assert plain["origin"].endswith("config.toml")
    tried = agent("mcp", "test")
    assert tried.returncode == 1
    assert "plain: ready (plain 1)" in tried.stdout
    assert "\x1b" not in tried.stdout
    assert "/mcp__plain__greet" in tried.stdout
    assert "gone: left out: it can't be reached" in tried.stderr
    assert agent("mcp", "test", "plain").returncode == 0
    assert agent("mcp", "remove", "plain").returncode == 0
    assert [row["name"] for row in json.loads(agent("mcp", "list", "--json").stdout)] == [
        gone["name"]
    ]


def test_a_server_of_the_project_is_kept_in_its_file(agent):
    agent("mcp", "add", "plain", "--project", "--", sys.executable, str(PLAIN))
    kept = json.loads((agent.workspace / ".mcp.json").read_text())
    assert kept == {"mcpServers": {"plain": {"command": sys.executable, "args": [str(PLAIN)]}}}
    assert agent("mcp", "list").stdout == ""
    agent("trust", "--yes")
    assert "plain_server.py" in agent("mcp", "list").stdout
    assert agent("mcp", "remove", "--project", "plain").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a__b", "--", "x"], "can't name a tool server"),
        (["both", "--url", "http://127.0.0.1/", "--", "x"], "a command or a url"),
        (["none"], "a command or a url"),
        (["ours", "--project", "--network", "--", "x"], "a project can't decide"),
        (["bad", "--env", "X", "--", "x"], "is not NAME=VALUE"),
    ],
)
def test_what_is_no_server_is_refused(agent, arguments, said):
    done = agent("mcp", "add", *arguments)
    assert done.returncode in (2, 3)
    assert said in done.stderr


@contextmanager
def serving(agent) -> Iterator[Client]:
    """A client of `agent mcp serve`."""
    with agent.start("mcp", "serve", stdin=-1) as process:
        client = Client(process)
        client.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )
        client.tell("notifications/initialized")
        yield client


@dataclass
class Client:
    process: subprocess.Popen[bytes]
    asked: int = 0

    def tell(self, method: str, **params: object) -> None:
        self.send({"method": method, "params": params})

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, tool: str, **arguments: str) -> int:
        """Call a tool, and don't wait for its answer."""
        self.asked += 1
        params = {"name": tool, "arguments": arguments}
        self.send({"id": self.asked, "method": "tools/call", "params": params})
        return self.asked

    def ask(self, method: str, **params: object) -> dict:
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": params})
        return json.loads(self.process.stdout.readline())["result"]

    def call(self, tool: str, **arguments: str) -> tuple[bool, str]:
        """Whether it failed, and what it said."""
        result = self.ask("tools/call", name=tool, arguments=arguments)
        return result["isError"], result["content"][0]["text"]


def test_the_agent_serves_itself(agent, serve):
    agent.use(serve([Reply("did it"), Reply("and more")]))
    with serving(agent) as client:
        names = [tool["name"] for tool in client.ask("tools/list")["tools"]]
        assert names == ["run", "resume", "sessions_search"]
        ran = client.call("run", task="do it", folder=str(agent.workspace))
        [session] = agent.sessions
        assert ran == (False, f"did it\n\n[session {session.name}, finished]")
        _, again = client.call("resume", session=session.name, message="and more")
        assert again.startswith("and more")
        _, found = client.call("sessions_search", query="more")
        assert session.name in found
        client.process.stdin.close()
        assert client.process.wait(20) == 0


def test_what_a_client_says_becomes_no_flag(agent, serve):
    """Neither of the program that is served nor of one that it starts."""
    said = ["--help", "-x", "--", "-", "@made", "/clear", "a\nb", "a\0b"]
    agent.use(serve([Reply("did it")] * len(said)))
    made = agent.workspace / "made"
    key = f"--set=providers.scripted.api_key_command=touch {made}"
    with serving(agent) as client:
        for text in (*said, "", "x" * 300, key, "--yolo", f"-o{made}", f"--record={made}"):
            failed, why = client.call("resume", session=text, message="go on")
            assert (failed, "there is no session" in why) == (True, True), (text, why)
            failed, why = client.call("run", task="do it", folder=text)
            assert failed
            assert "no absolute path" in why or "there is no folder" in why, (text, why)
            _, why = client.call("sessions_search", query=text)
            assert "nothing found" in why or "no word to search for" in why, (text, why)
        failed, why = client.call("run", task="do it", folder=f"{agent.workspace}\0")
        assert (failed, "there is no folder" in why) == (True, True), why
        assert agent.sessions == []
        first, *more = said
        failed, why = client.call("run", task=first, folder=str(agent.workspace))
        assert not failed, why
        [session] = agent.sessions
        for text in more:
            failed, why = client.call("resume", session=session.name, message=text)
            assert not failed, (text, why)
        told = [
            e["args"]["content"]
            for e in records(agent)
            if e.get("action") == "message" and e["source"] == "user"
        ]
        assert told == said
        client.process.stdin.close()
        assert client.process.wait(20) == 0
    assert not made.exists()


@pytest.mark.parametrize("how", ["cancelled", "closed", "terminated"])
def test_work_that_a_client_gives_up_is_recorded(agent, serve, how):
    agent.use(serve([Reply("", [Call("bash", {"command": "echo > begun; sleep 600"})])]))
    os.mkfifo(agent.workspace / "begun")
    with serving(agent) as client:
        asked = client.begin("run", task="wait", folder=str(agent.workspace))
        (agent.workspace / "begun").read_bytes()
        if how == "cancelled":
            client.tell("notifications/cancelled", requestId=asked)
            client.call("sessions_search", query="wait")
        if how == "terminated":
            client.process.terminate()
        else:
            client.process.stdin.close()
        assert client.process.wait(20) == (143 if how == "terminated" else 0)
    assert "interrupted" in agent("sessions", "list").stdout
