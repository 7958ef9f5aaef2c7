"""What is asked at a terminal by the binary, on the screen of a terminal emulator."""

from __future__ import annotations

import pytest

from tests.emulated import Emulated
from tests.server import Call, Reply

ASKED = "Allow this command?"


@pytest.fixture
def run(agent):
    """Starts `agent run` without a sandbox in a terminal of so many columns."""
    opened = []

    def start(*arguments: str, columns: int = 80, rows: int = 30) -> Emulated:
        terminal = Emulated(
            [*agent.command, "run", "--no-sandbox", *arguments],
            agent.workspace,
            agent.environment,
            columns=columns,
            rows=rows,
        )
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def calls(*commands: str) -> list[Reply]:
    return [*(Reply("", [Call("bash", {"command": each})]) for each in commands), Reply("Done.")]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_question_folds_to_the_line_of_the_call(agent, serve, run, columns):
    agent.use(serve(calls("touch first", "touch second")))
    terminal = run("go", columns=columns)
    terminal.until("│ touch first")
    terminal.until("yes, once")
    terminal.type("y").until("│ touch second")
    terminal.until("yes, once")
    terminal.type("\x1b[A").until("> t  no; type")
    terminal.type("\r").until("Enter sends it as a no")
    terminal.type("not here\r").until("Done.")
    assert terminal.ended() == 0
    shown = "\n".join(terminal.rows)
    assert "yes, once" not in shown
    assert ASKED not in shown
    assert sum("touch first" in row for row in terminal.rows) == 1
    assert "allowed by you" in shown
    assert "not allowed by you: not here" in " ".join(shown.split())
    assert (agent.workspace / "first").exists()
    assert not (agent.workspace / "second").exists()


def test_a_paste_answers_no_question_and_reaches_no_other(agent, serve, run):
    agent.use(serve(calls("touch first", "touch second")))
    terminal = run("go")
    terminal.until("│ touch first")
    terminal.until("yes, once")
    terminal.type("y\ry\ryes\r" * 500).until("that was text: nothing is answered yet")
    terminal.type("\x1b").until("yes, once")
    terminal.type("n").until("│ touch second")
    terminal.until("yes, once")
    terminal.type("\x1b[200~y\ry\r\x1b[201~").until("that was text: nothing is answered yet")
    terminal.type("\r").until("Done.")
    assert terminal.ended() == 0
    assert not (agent.workspace / "first").exists()
    assert not (agent.workspace / "second").exists()


def test_a_rule_is_narrowed_and_saved(agent, serve, run):
    agent.use(serve(calls("git push -u origin main", "git push -u origin other")))
    terminal = run("go")
    terminal.until("│ bash(git push:*)")
    terminal.type("e").until("1  bash(git push -u origin main)")
    terminal.type("1").until("yes, once")
    terminal.type("a").until("│ git push -u origin other")
    terminal.until("yes, once")
    terminal.type("n").until("Done.")
    assert terminal.ended() == 0
    rules = (agent.home / ".config" / "agent" / "rules").read_text()
    assert rules == f"allow bash(git push -u origin main) in {agent.workspace}\n"
