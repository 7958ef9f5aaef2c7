"""bash as the model sees it: what came out, and what the output alone can't tell."""

from __future__ import annotations

import json

import pytest

from agentcli.messages import ToolCall
from agentcli.runtime.files import FileLedger
from agentcli.runtime.python import PythonInterpreter
from agentcli.runtime.shell import Shell
from agentcli.tools.base import ToolContext
from agentcli.tools.collection import ToolCollection, built_in_tools


@pytest.fixture
def call(tmp_path):
    """Call a tool as a model does; what comes back is the text that the model reads."""
    for name in ("work", "outputs", "shell", "python"):
        (tmp_path / name).mkdir()
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}
    place = {"env": env, "outputs": tmp_path / "outputs"}
    context = ToolContext(
        workspace=tmp_path / "work",
        outputs=tmp_path / "outputs",
        files=FileLedger(tmp_path / "work"),
        shell=Shell(cwd=str(tmp_path / "work"), scratch=tmp_path / "shell", **place),
        python=PythonInterpreter(workspace=tmp_path / "work", scratch=tmp_path / "python", **place),
    )
    tools = ToolCollection(built_in_tools(), context)

    def call(tool: str, **arguments):
        return tools.execute(tools.parse(ToolCall("c", tool, json.dumps(arguments)))).content

    yield call
    context.shell.close()
    context.python.close()


def test_plain_output_is_all_there_is(call):
    assert call("bash", command="echo hi") == "hi"


def test_what_output_cannot_tell_is_told(call, tmp_path):
    assert call("bash", command="true") == "[exit 0, no output]"
    assert call("bash", command="echo no; (exit 3)") == "no\n[exit 3]"
    assert call("bash", command="cd /; echo there") == "there\n[now in /]"
    assert call("bash", command="pwd") == "/"


def test_a_job_is_named_with_its_state_and_log(call):
    started = call("bash", command="echo up; exec sleep 1000", background=True)
    assert "job job-1 runs" in started
    log = started.split("log: ")[1].rstrip("]")
    call("bash", command=f"until grep -q up {log}; do :; done")
    status = call("bash", command="status", job="job-1")
    assert status.startswith("up\n[job job-1 runs")
    assert "now in" not in status
    assert "has ended, exit 143" in call("bash", command="stop", job="job-1")
    assert "has ended, exit 143" in call("bash", command="status", job="job-1")
    assert "job-1" in call("bash", command="status", job="nope")


def test_a_command_that_waits_for_input_is_told_and_answered(call):
    asked = call("bash", command="read -p 'name? ' x; echo hello $x", is_input=True)
    assert "waits for input: answer with is_input" in asked
    assert "hello you" in call("bash", command="you", is_input=True)


def test_a_timeout_says_what_to_do_instead(call):
    told = call("bash", command="sleep 1000", timeout=0.2)
    assert "background" in told
    assert "exit 130" not in told


def test_a_fresh_shell_forgets(call):
    call("bash", command="x=1; cd /")
    assert call("bash", command="echo [$x]", restart=True).startswith("[]")


def test_python_keeps_its_names_and_shows_values(call):
    assert call("python", code="x = 20\nx + 1") == "21"
    assert "NameError" in call("python", code="y")
    assert call("python", code="x = 3") == "[no output]"
