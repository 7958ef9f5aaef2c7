"""What is asked at a terminal by the binary, on the screen of a terminal emulator."""

from __future__ import annotations

import os
import signal

import pytest

from tests.emulated import Emulated
from tests.scripted import bash
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
    return [*(bash(each) for each in commands), Reply("Done.")]


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


QUESTION = {
    "question": "Which \x1b[31mdatabase?",
    "options": ["SQLite", "Postgres \x1b]0;evil\x07"],
}


def asking(**arguments: object) -> list[Reply]:
    return [Reply("", [Call("ask", arguments or QUESTION)]), Reply("Done.")]


def told(server) -> str:
    return server.requests[-1].body["messages"][-1]["content"]


def test_where_nobody_can_be_asked_the_model_is_told_and_goes_on(agent, serve):
    server = serve(asking())
    done = agent.use(server).ok("run", "--json", "x")
    assert told(server).startswith("Nobody can be asked: decide by yourself")
    (use,) = (line for line in done.stdout.splitlines() if '"tool_use"' in line)
    assert "database?" in use
    assert "ask nothing" in server.requests[0].body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["2"], "The user answered: Postgres"),
        (["\x1b[B", "\r"], "The user answered: SQLite"),
        (["t", "neither, a file", "\r"], "The user answered: neither, a file"),
        (["\r", "\x1b"], "The user did not answer: go by what they say next"),
        (["\x1b[200~1\r2\r\x1b[201~", "\r"], "The user answered: 1\n2"),
    ],
)
def test_a_person_chooses_or_writes(agent, serve, talk, keys, answer):
    server = agent.asks(serve(asking()))
    terminal = talk("run", "x", columns=60)
    rows = terminal.until("something else: type it")
    assert "The model asks:" in rows
    assert any("Which " in row and "database?" in row for row in rows)
    assert b"\x1b[31mdatabase" not in terminal.raw
    assert b"\x1b]0;evil" not in terminal.raw
    for key in keys:
        terminal.type(key)
        if key == "t" or "200~" in key:
            terminal.until("Enter sends it")
        elif key == "\r" and answer.startswith("The user did not"):
            terminal.until("Esc: no answer")
    assert terminal.ended() == 0
    assert told(server).startswith(answer)
    shown = "\n".join(terminal.rows)
    assert "something else" not in shown
    assert "ask " in shown
    assert "ask nothing" not in server.requests[0].body["messages"][0]["content"]


def test_without_options_the_answer_is_typed(agent, serve, talk):
    server = agent.asks(serve(asking(question="What is it called?")))
    terminal = talk("what is it?")
    terminal.until("What is it called?")
    terminal.until("Enter sends it, Esc: no answer")
    terminal.type("Widget 2\r").until("Done.")
    assert told(server) == "The user answered: Widget 2"
    terminal.type("/quit\r")
    assert terminal.ended() == 0


def test_on_a_terminal_without_keys_a_line_answers(agent, serve, talk):
    server = agent.asks(serve(asking()))
    terminal = talk("run", "x", TERM="dumb")
    terminal.until("a number, or an answer of yours")
    terminal.type("1\n")
    assert terminal.ended() == 0
    assert told(server) == "The user answered: SQLite"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_question_that_was_cut_off_is_asked_again(agent, serve, talk, number):
    server = agent.asks(serve(asking(), sessions=2))
    terminal = talk("run", "x")
    terminal.until("something else: type it")
    if number == signal.SIGINT:
        terminal.type("\x03")
    else:
        os.kill(terminal.child.pid, number)
    assert terminal.ended() == (130 if number == signal.SIGINT else None)
    assert len(server.requests) == 1
    again = talk("resume", "--last")
    again.until("something else: type it")
    again.type("1")
    assert again.ended() == 0
    *_, answered, where = server.requests[-1].body["messages"]
    assert answered["content"] == "The user answered: SQLite"
    assert where["content"].startswith("[Where you are now")


def test_who_says_something_else_instead_is_not_asked_again(agent, serve, talk):
    server = agent.asks(serve(asking()))
    terminal = talk("set up a database")
    terminal.until("something else: type it")
    terminal.type("\x03").until("interrupted")
    terminal.type("use SQLite\r").until("Done.")
    *_, result, message = server.requests[-1].body["messages"]
    assert result["content"].startswith("The user did not answer: go by what they say next")
    assert "use SQLite" in str(message)
    terminal.type("/quit\r")
    assert terminal.ended() == 0
