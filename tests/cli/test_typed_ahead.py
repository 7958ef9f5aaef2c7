"""What is typed at the terminal while `agent run` works, in a shell with job control."""

from __future__ import annotations

import os
import shlex
import signal
import threading

import pytest

from tests.emulated import Emulated
from tests.server import Call, Paused, Reply
from tests.shell.shells import until

WORKS = "while [ ! -e go ]; do sleep 0.02; done"


@pytest.fixture
def shell(agent):
    """A shell at a terminal in which `agent` is the program."""
    shells = []

    def start() -> Emulated:
        command = shlex.join(agent.command)
        terminal = Emulated(
            ["bash", "--norc", "--noediting", "-i"],
            agent.workspace,
            {**agent.environment, "PS1": "$ ", "BASH_SILENCE_DEPRECATION_WARNING": "1"},
        )
        shells.append(terminal)
        terminal.until("$")
        terminal.type(f'agent() {{ {command} "$@"; }}; clear\r')
        terminal.until(lambda rows: rows[0] == "$" and not any(rows[1:]))
        return terminal

    yield start
    for terminal in shells:
        terminal.close()


def is_back(terminal: Emulated) -> bool:
    """The shell has the terminal, which shows what is typed, and got nothing that was typed before
    its prompt came."""
    until(lambda: os.tcgetpgrp(terminal.child.child_fd) == terminal.child.pid)
    assert terminal.child.getecho()
    terminal.until(lambda rows: [row for row in rows if row][-1] == "$")
    terminal.type("echo $((6 * 7))\r").until(lambda rows: "42" in rows)
    after = terminal.rows[terminal.rows.index("42") - 1]
    return after == "$ echo $((6 * 7))" and "leaked" not in terminal.rows


def working() -> Reply:
    return Reply("", [Call("bash", {"command": WORKS})])


def test_whole_lines_are_heard_and_the_rest_goes_to_nobody(agent, serve, shell):
    hold = threading.Event()
    server = serve([working(), Paused(hold, Reply("One two three."), after=2)])
    agent.use(server)
    terminal = shell()
    terminal.type("agent run --yolo 'wait for it'\r").until("while [ ! -e go ]")
    until(lambda: not terminal.child.getecho())
    terminal.type("echo leaked\recho lea").until("heard at its next step: echo leaked")
    (agent.workspace / "go").touch()
    terminal.until("One")
    hold.set()
    terminal.until("discarded 8 characters typed at the end")
    assert is_back(terminal)
    said = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    assert "echo leaked" in str(said[-1])


def test_what_can_not_be_heard_any_more_waits_in_the_session(agent, serve, shell):
    server = serve([working(), Reply("Heard.")])
    agent.use(server)
    terminal = shell()
    terminal.type("agent run --yolo 'wait for it'\r").until("while [ ! -e go ]")
    until(lambda: not terminal.child.getecho())
    terminal.type("echo leaked\r").until("heard at its next step: echo leaked")
    terminal.type("\x03").until("what you typed will be heard when the session continues")
    assert is_back(terminal)
    assert agent("resume", "--last").returncode == 0
    assert "echo leaked" in str(server.requests[-1].body)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_the_terminal_is_as_before_whatever_ends_it(agent, serve, shell, number):
    agent.use(serve([working()]))
    terminal = shell()
    terminal.type("agent run --yolo 'wait for it'\r").until("while [ ! -e go ]")
    until(lambda: not terminal.child.getecho())
    # The line before it has been read, so the terminal has this one too.
    terminal.type("and so on\recho lea").until("heard at its next step: and so on")
    os.killpg(os.tcgetpgrp(terminal.child.child_fd), number)
    assert is_back(terminal)


def test_it_is_stopped_and_goes_on(agent, serve, shell):
    server = serve([working(), Reply("Heard.")])
    agent.use(server)
    terminal = shell()
    terminal.type("agent run --yolo 'wait for it'\r").until("while [ ! -e go ]")
    until(lambda: not terminal.child.getecho())
    terminal.type("echo lea\x1a").until("Stopped")
    assert is_back(terminal)
    terminal.type("clear; fg\r").until("while [ ! -e go ]")
    until(lambda: not terminal.child.getecho())
    terminal.type("echo leaked\r").until("heard at its next step: echo leaked")
    (agent.workspace / "go").touch()
    terminal.until("Heard.")
    assert is_back(terminal)


def test_an_approval_has_the_terminal_for_itself(agent, serve, shell):
    asked = Reply("", [Call("bash", {"command": f"touch asked; {WORKS}"})])
    server = serve([asked, Reply("So.")])
    agent.use(server)
    terminal = shell()
    terminal.type("agent run --no-sandbox 'wait for it'\r").until("do instead")
    terminal.type("y").until(lambda rows: not any("do instead" in row for row in rows))
    until((agent.workspace / "asked").exists)
    assert not terminal.child.getecho()
    terminal.type("and so on\r").until("heard at its next step: and so on")
    (agent.workspace / "go").touch()
    terminal.until("So.")
    assert is_back(terminal)
    assert "and so on" in str(server.requests[-1].body)


def test_with_no_stdin_the_terminal_is_left_alone(agent, serve, shell):
    agent.use(serve([working()]))
    terminal = shell()
    terminal.type("agent run --yolo --no-stdin 'wait for it'\r").until("while [ ! -e go ]")
    assert terminal.child.getecho()
