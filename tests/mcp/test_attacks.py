"""What a hostile server tries: secrets, files, the network, the policy, the screen."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from tests.attacks.leftovers import processes_with
from tests.mcp.conftest import PLAIN, results, told
from tests.server import Call, Reply

pytestmark = pytest.mark.campaign

ALL = ("--allow", "mcp__plain__*")


@pytest.fixture
def attempt(agent, serve, server):
    """Has the server try something; what it said came of that."""

    def make(what: str, at: object = "", layer: str = "bubblewrap", **settings: object) -> str:
        server("plain", **settings)
        call = Call("mcp__plain__look", {"what": what, "at": str(at)})
        agent.use(serve([Reply("", [call]), Reply("done")]))
        run = agent("run", *ALL, "--set", f"sandbox.layer={layer}", "go on")
        assert run.returncode == 0, run.stderr
        return results(agent)[0]["content"]

    return make


def test_it_reads_no_secret(agent, attempt):
    key = agent.home / ".ssh" / "id_rsa"
    key.parent.mkdir()
    key.write_text("PRIVATE")
    assert attempt("read", key).startswith("refused")


def test_it_gets_no_key_of_a_model_and_only_what_it_was_given(agent, attempt):
    agent.env |= {"DATABASE_PASSWORD": "hunter2-hunter2", "SHOP_TOKEN": "tok-8fK2pQ7zX1vB"}
    seen = attempt("environment", env={"TOKEN": "${SHOP_TOKEN}", "KEY": "${OPENAI_API_KEY:-no}"})
    assert "KEY=no" in seen
    assert "sk-test" not in seen
    assert "hunter2" not in seen
    assert "TOKEN=" in seen
    assert "tok-8fK2pQ7zX1vB" not in seen, "it is masked in what is recorded"


def test_it_changes_nothing_outside(agent, attempt):
    place = agent.home / "elsewhere"
    # In the sandbox that may be a folder of the session's own.
    attempt("write", place)
    assert not place.exists()


def test_it_changes_no_rules_and_nobody_lets_it_be_asked_to(agent, serve, server):
    """The way there is hidden from the policy in the arguments that its program is started with."""
    rules = agent.home / ".config" / "agent" / "rules"
    server("plain", "good", "0", str(rules))
    asked = Call("mcp__plain__look", {"what": "write", "at": str(rules)})
    hidden = Call("mcp__plain__look", {"what": "write", "at": "argv"})
    agent.use(serve([Reply("", [hidden]), Reply("", [asked]), Reply("done")]))
    run = agent("run", *ALL, "go on")
    assert "agent's own" in run.stderr
    assert [each["content"][:7] for each in results(agent)] == ["refused"]
    assert not rules.exists()


def test_it_reaches_no_network_unless_the_person_lets_it(agent, attempt):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        assert attempt("connect", place).startswith("refused")


def test_it_reaches_the_network_when_the_person_lets_it(agent, attempt):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        assert attempt("connect", place, network=True) == "connected"


def test_a_person_lets_a_server_of_a_project_reach_the_network(agent, serve):
    entry = {"command": sys.executable, "args": [str(PLAIN)]}
    (agent.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"plain": entry}}))
    agent("trust", "--yes")
    assert agent("config", "set", "mcp_servers.plain.network", "true").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        call = Call("mcp__plain__look", {"what": "connect", "at": place})
        agent.use(serve([Reply("", [call]), Reply("done")]))
        assert agent("run", *ALL, "go on").returncode == 0
    assert results(agent)[0]["content"] == "connected"
    elsewhere = agent.home / "elsewhere"
    elsewhere.mkdir()
    assert agent("mcp", "list", "--json", cwd=elsewhere).stdout == "[]\n"


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_nothing_of_it_outlives_the_session(agent, attempt, layer):
    seconds = "1987654321"
    assert attempt("leave", seconds, layer=layer) == "left behind"
    assert not processes_with(seconds)


def test_nothing_it_says_reaches_the_terminal_as_it_is(agent, serve, server, talk):
    server("plain", "spoof")
    agent.use(serve([Reply("", [Call("mcp__plain__echo", {"text": "hi"})]), Reply("done")]))
    terminal = talk(*ALL, "go on")
    terminal.until("done in")
    assert b"\x1b]0;owned" not in terminal.raw
    assert b"\x1b[31mred" not in terminal.raw


def test_what_it_names_in_its_words_is_marked_as_its_own(agent, serve, server):
    server("plain")
    model = serve([Reply("ok")])
    agent.use(model)("run", "hi")
    for tool in model.requests[0].body["tools"]:
        function = tool["function"]
        if function["name"].startswith("mcp__"):
            assert function["description"].startswith(("[plain says:]", "[plain does not say"))
            assert "\x1b" not in json.dumps(function)
    assert "\\u001b" not in told(model, 0)


def test_a_project_says_neither_how_its_server_is_contained_nor_takes_the_place_of_ones_own(
    agent, serve, server
):
    server("plain", network=True)
    mine = {"command": "/bin/false", "sandbox": False}
    (agent.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"plain": mine}}))
    project = agent.workspace / ".agent" / "config.toml"
    project.parent.mkdir()
    project.write_text('[mcp_servers.free]\ncommand = "/bin/false"\nsandbox = false\n')
    assert agent("trust", "--yes").returncode == 0
    agent.use(serve([Reply("", [Call("mcp__plain__echo", {"text": "mine"})]), Reply("ok")]))
    run = agent("run", *ALL, "hi")
    assert "mcp_servers.plain is yours already" in run.stderr
    assert "a project can't set mcp_servers.free.sandbox" in run.stderr
    assert results(agent)[0]["content"] == "mine"
