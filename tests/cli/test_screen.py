"""What a person sees of a run at a terminal while the window changes, and what they can copy."""

from __future__ import annotations

import os
import shlex
import signal
import threading

import pytest

from tests.emulated import Emulated
from tests.scripted import bash
from tests.server import Call, Paused, Reply
from tests.shell.shells import until

LOOP = "n=0; until [ -e go ]; do n=$((n+1)); echo line $n of some output; sleep .1; done; echo end"


@pytest.fixture
def run(agent):
    """Starts `agent run` in a terminal of so many columns."""
    opened = []

    def start(*arguments: str, columns: int = 80, rows: int = 24, **env: str) -> Emulated:
        terminal = Emulated(
            [*agent.command, "run", *arguments],
            agent.workspace,
            {**agent.environment, **env},
            columns=columns,
            rows=rows,
        )
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def text(terminal: Emulated) -> str:
    return "\n".join(terminal.rows).rstrip()


def live_once(rows: list[str]) -> bool:
    """One running command with the end of its output below it, and nothing else of either."""
    calls = [number for number, row in enumerate(rows) if "until [ -e go ]" in row]
    lines = [row for row in rows if "of some output" in row and "echo" not in row]
    return len(calls) == 1 and len(lines) == 4 and rows[calls[0] + 1].startswith("    … +")


def test_a_window_of_another_size_has_nothing_stale_in_it(agent, serve, run):
    agent.use(serve([bash(LOOP), Reply("Done.")]))
    terminal = run("--yolo", "x", columns=120)
    terminal.until(live_once)
    for columns, height in ((100, 24), (120, 24), (110, 30), (120, 30)):
        terminal.resize(columns, height)
        terminal.until(live_once)
    (agent.workspace / "go").touch()
    assert terminal.ended() == 0
    assert text(terminal).count("echo end") == 1
    assert len([row for row in terminal.rows if row.startswith("    line")]) == 2


@pytest.mark.campaign
def test_a_table_is_there_once_though_the_window_changed_in_its_middle(agent, serve, run):
    table = "| name | value |\n|---|---|\n" + "".join(f"| n{i} | {i} |\n" for i in range(12))
    gate = threading.Event()
    reply = Reply(f"A table:\n\n{table}\nThe end.")
    agent.use(serve([Paused(gate, reply, after=9)]))
    terminal = run("x", columns=80)
    terminal.until("n3")
    terminal.resize(60, 30)
    gate.set()
    assert terminal.ended() == 0
    for number in range(12):
        assert text(terminal).count(f" n{number} ") == 1
    assert text(terminal).count("name") == 1


def test_ctrl_z_leaves_the_screen_to_the_shell_and_nothing_is_doubled_afterwards(agent, serve):
    agent.use(serve([bash(LOOP), Reply("Done.")]))
    shell = ["bash", "--norc", "--noprofile", "-i"]
    terminal = Emulated(shell, agent.workspace, {**agent.environment, "PS1": "$ "}, columns=120)
    terminal.type(f"clear; {' '.join(agent.command)} run --yolo x\r")
    terminal.until(live_once)
    terminal.type("\x1a")
    rows = terminal.until("Stopped")
    assert not any(row.startswith("    ") for row in rows)
    terminal.type("fg\r").until(live_once)
    (agent.workspace / "go").touch()
    terminal.until("agent resume")
    assert text(terminal).count("echo end") == 1
    terminal.close()


def test_ctrl_z_in_a_conversation_and_fg_takes_keys_again(agent, serve):
    agent.use(serve([bash(LOOP), Reply("Done.")]))
    shell = ["bash", "--norc", "--noprofile", "-i"]
    terminal = Emulated(shell, agent.workspace, {**agent.environment, "PS1": "$ "}, columns=120)
    terminal.type(f"clear; {' '.join(agent.command)} --yolo 'the task'\r")
    terminal.until("    … +")
    terminal.type("half").until("> half")
    terminal.type("\x1a")
    rows = terminal.until("Stopped")
    assert not any("half" in row or "Shift-Tab" in row for row in rows)
    terminal.type("clear; fg\r").until("    … +")
    terminal.type(" done").until("> half done")
    (agent.workspace / "go").touch()
    terminal.until("done in")
    assert text(terminal).count("echo end") == 1
    assert text(terminal).count("> half done") == 1
    terminal.close()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_what_ran_can_be_copied_from_the_screen(agent, serve, run, columns):
    command = "printf '%s\\n' " + " ".join(f"argument-{n}" for n in range(20)) + " | tail -n 1"
    script = "cat > x.sh <<'EOF'\necho " + "word " * 30 + "\nEOF\nsh x.sh"
    fence = f"Run this:\n\n```sh\n{command}\n```\n"
    calls = [Call("bash", {"command": command}), Call("bash", {"command": script})]
    agent.use(serve([Reply("", calls), Reply(fence)]))
    terminal = run("--yolo", "x", columns=columns, rows=60)
    assert terminal.ended() == 0
    # A terminal joins the rows that it has wrapped itself.
    copied = "".join(row.ljust(columns) for row in terminal.screen.display)
    assert copied.count(command) == 2
    for line in script.split("\n"):
        assert line.rstrip() in copied
    assert "argument-19" in copied


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
    return bash(WORKS)


def test_whole_lines_are_heard_and_the_rest_goes_to_nobody(agent, serve, shell):
    hold = threading.Event()
    server = agent.asks(serve([working(), Paused(hold, Reply("One two three."), after=2)]))
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
    server = agent.asks(serve([working(), Reply("Heard.")]))
    terminal = shell()
    terminal.type("agent run --yolo 'wait for it'\r").until("while [ ! -e go ]")
    until(lambda: not terminal.child.getecho())
    terminal.type("echo leaked\r").until("heard at its next step: echo leaked")
    terminal.type("\x03").until("what you typed will be heard when the session continues")
    assert is_back(terminal)
    agent.ok("resume", "--last")
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
    agent.use(serve([working(), Reply("Heard.")]))
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
    asked = bash(f"touch asked; {WORKS}")
    server = agent.asks(serve([asked, Reply("So.")]))
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
