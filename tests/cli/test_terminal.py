"""`agent run` at a real terminal: what is asked, what a person sees, what Ctrl-C does."""

from __future__ import annotations

import errno
import json
import os
import re
import termios

import pexpect
import pytest

from agentcli.cli import entry
from tests.conftest import LIMIT_S
from tests.server import Call, Reply

PROMPT = r"do instead(\x1b\[\d*m)?\x1b\[K\x1b\[J"


@pytest.fixture
def at_terminal(agent):
    """Start `agent` in a pty of 80 columns."""
    running = []

    def start(*arguments: str, **env: str) -> pexpect.spawn:
        child = agent.spawn(*arguments, **env)
        running.append(child)
        return child

    yield start
    for child in running:
        child.close(force=True)


def ended(child: pexpect.spawn) -> str:
    """What was shown until the end; the exit code is in `child.exitstatus`."""
    child.expect(pexpect.EOF)
    child.close()
    return child.before


def test_commands_are_asked_about_and_the_answer_counts(agent, serve, at_terminal):
    script = [
        Reply("", [Call("bash", {"command": "touch asked"})]),
        Reply("", [Call("bash", {"command": "touch refused"})]),
        Reply("", [Call("write", {"path": "inside.txt", "content": "x"})]),
        Reply("Done as you said."),
    ]
    server = serve(script)
    agent.use(server)
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect("touch asked")
    child.expect(PROMPT)
    child.send("y")
    child.expect("touch refused")
    child.expect(PROMPT)
    child.send("t")
    child.expect("sends it as a no")
    child.sendline("not in this folder")
    child.expect(r"inside\.txt")
    child.expect(PROMPT)
    child.sendline("y")
    shown = ended(child)
    assert child.exitstatus == 0
    assert (agent.workspace / "asked").exists()
    assert not (agent.workspace / "refused").exists()
    assert (agent.workspace / "inside.txt").exists()
    assert "not in this folder" in str(server.requests[2].body["messages"][-1])
    assert shown.count("Done as you said.") == 1


def test_hooks_judge_what_a_person_is_asked_about_and_do_so_first(agent, serve, at_terminal):
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    hook = f"tee -a '{agent.home}/judged' | grep -q forbidden && exit 2; exit 0"
    settings.write_text(f"[[hooks.PreToolUse]]\ncommand = {json.dumps(hook)}\nsandboxed = false\n")
    script = [
        Reply("", [Call("bash", {"command": "touch forbidden"})]),
        Reply("", [Call("bash", {"command": "touch asked"})]),
        Reply("Done."),
    ]
    agent.use(serve(script))
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect(PROMPT)
    assert "not allowed by hook" in child.before
    assert "touch asked" in child.before
    child.sendline("y")
    ended(child)
    assert (agent.workspace / "asked").exists()
    assert not (agent.workspace / "forbidden").exists()
    judged = (agent.home / "judged").read_text()
    assert judged.index("touch forbidden") < judged.index("touch asked")


def test_a_grant_for_the_session_outlives_the_process(agent, serve, at_terminal):
    script = [
        Reply("", [Call("bash", {"command": "touch one"})]),
        Reply("First."),
        Reply("", [Call("bash", {"command": "touch one"})]),
        Reply("Second."),
    ]
    agent.use(serve(script))
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect(PROMPT)
    child.sendline("s")
    ended(child)
    child = at_terminal("resume", "--last", "--no-sandbox", "again")
    assert "Second." in ended(child)
    assert child.exitstatus == 0


def test_ctrl_c_stops_the_command_and_tells_how_to_go_on(agent, serve, at_terminal):
    command = "echo begun; sleep 1000"
    server = serve([Reply("", [Call("bash", {"command": command})]), Reply("Went on.")])
    agent.use(server)
    child = at_terminal("run", "--yolo", "x")
    child.expect(r"\dmbegun")
    child.sendintr()
    shown = ended(child)
    assert child.exitstatus == 130
    assert "agent resume" in shown
    child = at_terminal("resume", "--last")
    assert "Went on." in ended(child)
    told = str(server.requests[-1].body["messages"])
    assert "begun" in told
    assert "interrupted" in told


def test_ctrl_c_while_the_model_thinks(agent, serve, at_terminal):
    import threading

    from tests.server import Hang

    never = threading.Event()
    agent.use(serve([Hang(never), Reply("Went on.")]))
    child = at_terminal("run", "x")
    child.expect("thinking")
    child.sendintr()
    ended(child)
    assert child.exitstatus == 130
    never.set()
    assert "Went on." in ended(at_terminal("resume", "--last"))


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_is_used_unless_it_is_not_wanted(agent, serve, at_terminal, no_color):
    agent.use(serve([Reply("", [Call("read", {"path": "missing"})]), Reply("`code` and **bold**")]))
    env = {"NO_COLOR": no_color} if no_color else {}
    shown = ended(at_terminal("run", "x", **env))
    colours = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;\d+;\d+)m", shown)
    assert bool(colours) is not bool(no_color)


def test_an_answer_that_goes_through_a_pipe_is_on_the_screen_once(agent, serve):
    agent.use(serve([Reply("The answer.")]))
    program = f"{' '.join(agent.command)} run x | cat"
    child = pexpect.spawn(
        "sh",
        ["-c", program],
        cwd=str(agent.workspace),
        env={**agent.environment, "TERM": "xterm-256color"},
        timeout=LIMIT_S,
        encoding="utf-8",
    )
    assert ended(child).count("The answer.") == 1


def test_a_call_that_makes_no_sense_is_told_without_its_json(agent, serve, at_terminal):
    agent.use(serve([Reply("", [Call("grep", {"patern": "x", "path": 1})]), Reply("Done.")]))
    shown = ended(at_terminal("run", "x"))
    assert "the model made a mistake in this call" in shown
    for internal in ("patern", "Field required", "Input should", "{"):
        assert internal not in shown


def test_escapes_from_model_and_tools_never_act(agent, serve, at_terminal):
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"
    script = [
        Reply(f"hello {evil}", [Call("bash", {"command": f"printf '{evil}hi'"})]),
        Reply(f"bye {evil}"),
    ]
    agent.use(serve(script))
    shown = ended(at_terminal("run", "--yolo", "x"))
    assert "bye" in shown
    assert "\x1b]52" not in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("kind", [OSError, termios.error])
def test_a_terminal_that_is_gone_before_its_signal_came_is_no_bug(monkeypatch, kind):
    def run(arguments):
        raise kind(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(entry, "_dispatch", run)
    monkeypatch.setattr(os, "isatty", lambda descriptor: False)
    assert entry._run(["run", "x"]) == 143
