"""`agent mcp`: servers are added, listed, tried and removed; and the agent is one itself."""

from __future__ import annotations

import json
import sys

import pytest

from tests.mcp.conftest import PLAIN
from tests.server import Reply


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


def test_the_agent_serves_itself(agent, serve):
    agent.use(serve([Reply("did it"), Reply("and more")]))
    with agent.start("mcp", "serve", stdin=-1) as process:

        def ask(number: int, method: str, **params: object) -> dict:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["result"]

        client = {"name": "test", "version": "1"}
        ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        names = [tool["name"] for tool in ask(2, "tools/list")["tools"]]
        assert names == ["run", "resume", "sessions_search"]
        given = {"task": "do it", "folder": str(agent.workspace)}
        ran = ask(3, "tools/call", name="run", arguments=given)
        [session] = agent.sessions
        assert ran["content"][0]["text"] == f"did it\n\n[session {session.name}, finished]"
        more = {"session": session.name, "message": "and more"}
        again = ask(4, "tools/call", name="resume", arguments=more)
        assert again["content"][0]["text"].startswith("and more")
        found = ask(5, "tools/call", name="sessions_search", arguments={"query": "more"})
        assert session.name in found["content"][0]["text"]
        process.stdin.close()
        assert process.wait(20) == 0
