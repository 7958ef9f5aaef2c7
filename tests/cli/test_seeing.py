"""What a person sees of a run at a terminal while the window changes, and what they can copy."""

from __future__ import annotations

import threading

import pytest

from tests.emulated import Emulated
from tests.server import Call, Paused, Reply

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
    agent.use(serve([Reply("", [Call("bash", {"command": LOOP})]), Reply("Done.")]))
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
    agent.use(serve([Reply("", [Call("bash", {"command": LOOP})]), Reply("Done.")]))
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
    agent.use(serve([Reply("", [Call("bash", {"command": LOOP})]), Reply("Done.")]))
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
