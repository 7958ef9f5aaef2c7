"""bash as the model sees it: what came out, and what the output alone can't tell."""

from __future__ import annotations

import json
import re

import pytest

from agentcli.events.base import Risk
from agentcli.messages import ToolCall
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import TOOLS, ToolRegistry
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.tracking import FileTracker
from tests.sandbox.sandboxes import LAYERS, make_place


@pytest.fixture
def call(tmp_path):
    """Call a tool as a model does; what comes back is the text that the model reads."""
    for name in ("work", "outputs", "shell", "python"):
        (tmp_path / name).mkdir()
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}
    place = {"env": env, "outputs": OutputFolder(tmp_path / "outputs")}
    context = ToolContext(
        workspace=tmp_path / "work",
        outputs=place["outputs"],
        files=FileTracker(tmp_path / "work", outputs=tmp_path / "outputs"),
        shell=Shell(cwd=str(tmp_path / "work"), scratch=tmp_path / "shell", **place),
        python=PythonInterpreter(cwd=str(tmp_path / "work"), scratch=tmp_path / "python", **place),
    )
    tools = ToolRegistry(TOOLS.all().values(), context)

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


def test_what_a_stopped_command_leaves_running_is_told(call):
    told = call("bash", command="sleep 1001 & (sleep 1002; true) & sleep 1003", timeout=0.5)
    assert "; still running in the background: `sleep 1001`, `sleep 1002`. The" in told
    told = call("bash", command="jobs -p | xargs kill; wait; sh -c 'sleep 9; true'", timeout=0.5)
    assert "still running" not in told


def test_a_restart_tells_the_folder(call, tmp_path):
    assert call("bash", command="echo hi", restart=True) == f"hi\n[now in {tmp_path}/work]"
    assert call("bash", command="cd /; echo hi", restart=True) == "hi\n[now in /]"


def test_programs_write_as_for_other_programs(call):
    tested = "import sys; print(sys.stdout.isatty(), sys.stderr.isatty())"
    assert call("bash", command=f"python3 -c '{tested}'") == "False False"
    assert call("python", code=tested) == "False False"
    assert call("bash", command="ls /") == call("bash", command="ls / | cat")
    typed = call("bash", command=f"python3 -c '{tested}'", is_input=True)
    assert typed == "True True"


def test_a_long_output_is_found_by_the_name_it_is_given(call):
    told = call("bash", command="seq 20000")
    name = re.search(r"the whole: (\$AGENT_OUT/\S+);", told)[1]
    first = int(re.search(r"read from line (\d+)", told)[1])
    assert told.endswith("20000")
    whole = call("bash", command="seq 4000")
    assert whole.endswith(f"4000\n[complete: {len(whole.rpartition(chr(10))[0]):,} characters]")
    assert call("read", path=name, start=first, end=first).startswith(f"{first}\t{first}\n")
    assert call("grep", pattern="^19999$", path=name) == f"{name}\n19999:19999"
    assert call("glob", pattern="*", path="$AGENT_OUT") == name
    assert call("glob", pattern="$AGENT_OUT/bash*") == name
    assert call("bash", command=f"tail -n 1 {name}") == "20000"
    code = f"import os; print(len(open(os.path.expandvars({name!r})).readlines()))"
    assert call("python", code=code) == "20000"


def test_a_fresh_shell_forgets(call):
    call("bash", command="x=1; cd /")
    assert call("bash", command="echo [$x]", restart=True).startswith("[]")


def test_python_keeps_its_names_and_shows_values(call):
    assert call("python", code="x = 20\nx + 1") == "21"
    assert "NameError" in call("python", code="y")
    assert call("python", code="x = 3") == "[no output]"


# Within a sandbox


@pytest.fixture
def inside(tmp_path):
    """`call` in the strongest sandbox there is, with the person's home at `home`."""
    if not LAYERS:
        pytest.skip("no sandbox works here")
    place = make_place(tmp_path, LAYERS[0])
    context = ToolContext(
        workspace=place.workspace,
        outputs=OutputFolder(tmp_path / "state/session/outputs"),
        files=FileTracker(place.workspace),
        shell=place.shell,
        python=PythonInterpreter(
            cwd=str(place.workspace),
            env={"PATH": "/usr/bin:/bin"},
            scratch=tmp_path / "state/session/python",
            outputs=OutputFolder(tmp_path / "state/session/outputs"),
            sandbox=place.sandbox,
        ),
        sandbox=place.sandbox,
    )
    tools = ToolRegistry(TOOLS.all().values(), context)

    def call(tool: str, **arguments):
        action = tools.parse(ToolCall("c", tool, json.dumps(arguments)))
        return action, tools.execute(action).content

    yield call
    context.shell.close()
    context.python.close()


def test_more_than_the_sandbox_gives_needs_a_reason_and_is_for_one_command(inside, tmp_path):
    action, said = inside("bash", command="touch ~/a", unsandboxed=True)
    assert "need a reason" in said
    asked = {"unsandboxed": True, "reason": "to see", "risk": "high"}
    _, said = inside("bash", command="touch ~/a", background=True, **asked)
    assert "runs to its end" in said
    action, said = inside("bash", command="touch ~/a", **asked)
    assert said == "[exit 0, no output]"
    assert (tmp_path / "home/a").exists()
    assert (action.unsandboxed, action.reason, action.security_risk) == (True, "to see", Risk.HIGH)
    inside("bash", command="touch ~/b")
    assert not (tmp_path / "home/b").exists()


def test_a_command_that_failed_for_the_sandbox_is_told_how_to_ask_for_more(inside):
    _, said = inside("bash", command="touch /usr/x")
    assert "unsandboxed: true" in said
    _, said = inside("bash", command="echo Could not resolve host: x >&2; (exit 6)")
    assert "network: true" in said
    _, said = inside("bash", command="(exit 6)")
    assert said == "[exit 6]"


def test_python_is_in_the_sandbox_too(inside, tmp_path):
    _, said = inside("python", code="open('in', 'w').close(); open('/usr/out', 'w')")
    assert "Error" in said
    assert (tmp_path / "work/in").exists()


def test_code_cannot_have_files_outside_taken_for_figures(inside, tmp_path):
    victim = tmp_path / "victim.png"
    victim.write_bytes(b"as it was")
    code = (
        "import __main__, sys\n"
        "driver = sys._getframe(1)\n"
        "while 'self' not in driver.f_locals: driver = driver.f_back\n"
        f"driver.f_locals['self'].figures = lambda _: [{str(victim)!r}]\n"
    )
    inside("python", code=code)
    inside("python", code="1")
    assert victim.read_bytes() == b"as it was"
