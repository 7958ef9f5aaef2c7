"""Tools of servers, as the model and the person see them."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.mcp.conftest import PLAIN, records, results, told, tools_told
from tests.server import Call, Reply

ALL = ("--allow", "mcp__plain__*")


def call(tool: str, **arguments: object) -> Reply:
    return Reply("", [Call(f"mcp__plain__{tool}", arguments)])


def test_a_tool_of_a_server_is_told_called_and_recorded(agent, serve, server):
    server("plain")
    model = serve([call("echo", text="hello"), Reply("done")])
    run = agent.use(model)("run", *ALL, "say hello")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    schema = tools_told(model)["mcp__plain__echo"]
    assert schema["description"] == "[plain says:] Say it again. red"
    assert schema["parameters"] == {"type": "object", "properties": {"text": {"type": "string"}}}
    [result] = results(agent)
    assert (result["content"], result["extras"]["server"]) == ("hello", "plain")
    [action] = [each for each in records(agent) if each.get("action") == "call_tool_mcp"]
    assert action["args"] == {"server": "plain", "name": "echo", "arguments": {"text": "hello"}}


def test_a_server_that_is_installed_in_tmp_is_seen_and_nothing_beside_it(agent, serve, server):
    """Though /tmp is the session's own otherwise."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="server-") as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        program = folder / "bin" / "serve"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$(dirname "$0")/../server.py"\n')
        program.chmod(0o755)
        shutil.copy(PLAIN, folder / "server.py")
        with tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="beside-") as beside:
            print("private", file=beside, flush=True)
            server("plain", command=str(program), args=[])
            look = call("look", what="read", at=beside.name)
            model = serve([call("echo", text="hello"), look, Reply("done")])
            run = agent.use(model)("run", *ALL, "say hello")
    assert run.returncode == 0, run.stderr
    echoed, looked = results(agent)
    assert echoed["content"] == "hello"
    assert "private" not in looked["content"]


def test_every_name_is_one_that_providers_take_and_none_is_a_built_in_one(agent, serve, server):
    server("plain")
    server("house-keeping_of_a_long_name", "good", "3")
    model = serve([call("odd_name_with_signs"), Reply("done")])
    assert agent.use(model)("run", *ALL, "call it").returncode == 0
    names = tools_told(model)
    assert "bash" in names
    assert "mcp__plain__bash" in names
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert results(agent)[0]["content"] == "called odd.name/with signs with {}"


def test_what_a_server_says_of_its_tools_is_no_reason_to_let_them_run(agent, serve, server):
    server("plain")
    model = serve([call("echo", text="hello"), Reply("I could not.")])
    run = agent.use(model)("run", "say hello")
    assert run.returncode == 5
    assert "it calls a tool of the server plain" in run.stderr
    assert not results(agent)


@pytest.mark.parametrize(
    ("rules", "ran"),
    [
        (("--allow", "mcp__plain__echo"), True),
        (("--allow", "mcp__other__*"), False),
        (("--yolo", "--deny", "mcp__plain__*"), False),
        (("--yolo", "--deny", "mcp__plain__fail"), True),
        (("--approval", "plan", "--allow", "mcp__plain__*"), False),
    ],
)
def test_rules_are_about_a_tool_or_about_all_of_a_server(agent, serve, server, rules, ran):
    server("plain")
    model = serve([call("echo", text="hello"), Reply("ok")])
    agent.use(model)("run", *rules, "say hello")
    assert bool(results(agent)) is ran


def test_answers_are_bounded_shown_and_failures_told(agent, serve, server):
    server("plain")
    calls = [call("long", lines=20_000), call("picture"), call("fail"), Reply("done")]
    model = serve(calls)
    run = agent.use(model)("run", *ALL, "try all")
    assert run.returncode == 0, run.stderr
    long, picture, failed = results(agent)
    assert long["content"].startswith("line 0\n")
    assert long["content"].endswith("line 19999")
    assert len(long["content"]) < 35_000
    whole = agent.sessions[0] / "outputs" / "plain-1.txt"
    assert whole.read_text().count("\n") == 19_999
    assert picture["extras"]["image_urls"][0].startswith("data:image/png;base64,")
    assert "image_url" in told(model, 2)
    assert (failed["content"], failed["extras"]["error"]) == ("it went wrong", True)
    assert "it went wrong" in run.stderr


def test_a_session_goes_on_with_the_tools_it_was_begun_with(agent, serve, server):
    server("plain")
    model = serve([call("echo", text="one"), Reply("first"), call("echo", text="two"), Reply("ok")])
    agent.use(model)
    assert agent("run", *ALL, "say one").returncode == 0
    assert agent("resume", "--last", *ALL, "say two").stdout == "ok\n"
    assert [each["content"] for each in results(agent)] == ["one", "two"]
    server("plain", "good", "2")
    (agent.home / ".config" / "agent" / "config.toml").unlink()
    model = serve([call("echo", text="three"), Reply("it is gone")])
    run = agent.use(model)("resume", "--last", *ALL, "say three")
    assert "these tools no longer exist: mcp__plain__echo" in run.stderr
    assert "these tools no longer exist: mcp__plain__echo" in told(model, 0)


class TestProject:
    """What a folder names takes effect as it was seen."""

    @pytest.fixture(autouse=True)
    def _named(self, agent):
        self.file = agent.workspace / ".mcp.json"
        self.write("good", SERVER_NOTES="${HOME}/notes", KEY="${OPENAI_API_KEY:-none}")

    def write(self, mode: str, **env: str) -> None:
        entry = {"command": sys.executable, "args": [str(PLAIN), mode], "env": env}
        self.file.write_text(json.dumps({"mcpServers": {"plain": entry}}))

    def test_it_runs_in_a_trusted_folder_until_its_command_line_changes(self, agent, serve):
        agent.use(serve([Reply("ok")]))
        run = agent("run", "hi")
        assert "is not trusted, so its tool servers take no effect" in run.stderr
        shown = agent("trust", "--yes").stderr
        assert "plain_server.py" in shown
        calls = [call("look", what="environment", at=""), Reply("ok"), Reply("ok")]
        model = serve(calls, sessions=2)
        assert agent.use(model)("run", *ALL, "look").returncode == 0
        [result] = results(agent)
        assert "KEY=none" in result["content"]
        assert "sk-test" not in result["content"]
        self.write("chatty")
        changed = agent("run", "hi")
        assert "no longer trusted, as these files changed: .mcp.json" in changed.stderr
