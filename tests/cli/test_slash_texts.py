"""Commands of a conversation that copy, show and write texts, and those that people bring."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentcli.cli.slash_command import first_line, slash_commands
from tests.conftest import Agent
from tests.emulated import Emulated
from tests.server import Call, ModelServer, Paused, Reply

READY = "Shift-Tab"
ANSWER = "Do this:\n\n```sh\nls -l\n```\n\nthen\n\n```python\nprint(1)\nprint(2)\n```\nDone."
TASKS = [{"title": "read", "status": "done"}, {"title": "write", "status": "in_progress"}]


@dataclass
class Chat:
    """Opens a conversation with a model that gives these replies, ready to be typed in."""

    agent: Agent
    serve: Callable[..., ModelServer]
    talk: Callable[..., Emulated]
    server: ModelServer | None = None

    def __call__(self, *replies: object, **env: str) -> Emulated:
        self.server = self.serve(list(replies))
        self.agent.use(self.server)
        terminal = self.talk("--yolo", columns=200, **env)
        terminal.until(READY)
        return terminal


@pytest.fixture
def chat(agent, serve, talk):
    return Chat(agent, serve, talk)


def last_said(server) -> str:
    """The newest message of the person, as the model got it."""
    messages = server.requests[-1].body["messages"]
    said = [message["content"] for message in messages if message["role"] == "user"]
    return str(said[-1])


def command_file(folder, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)


def copied(terminal: Emulated) -> list[str]:
    """What the terminal was asked to have in the clipboard, in order."""
    found = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", terminal.raw)
    return [base64.b64decode(each).decode() for each in found]


def test_answers_code_and_commands_are_copied(chat):
    call = Call("bash", {"command": "echo one\necho two"})
    terminal = chat(Reply("", [call]), Reply(ANSWER))
    terminal.type("/copy\r").until("there is no session yet")
    terminal.type("how?\r").until("done in")
    terminal.type("/copy\r").until("copied the last answer by the terminal (13 lines): Do this:")
    terminal.type("/copy 2\r").until("copied code block 2 by the terminal (2 lines): print(1)")
    terminal.type("/copy command\r").until("copied the last command")
    terminal.type("/copy 3\r").until("the last answer has 2 code blocks")
    assert copied(terminal) == [ANSWER, "print(1)\nprint(2)", "echo one\necho two"]


def test_what_waits_is_listed_dropped_edited_and_held_back(chat):
    hold = threading.Event()
    replies = [Paused(hold, Reply("One two three four five."), after=2), Reply("Heard.")]
    terminal = chat(*replies)
    terminal.type("begin\r").until("One")
    for number, text in enumerate(["first", "second", "third", "fourth"]):
        terminal.type(f"{text}\t").until(f"after the turn: {text}" if number < 3 else "2 more wait")
    terminal.type("/queue\r").until("  4  fourth")
    terminal.type("/queue drop 2\r").until("dropped: second")
    terminal.type("/queue edit 2\r").until("> third")
    terminal.type(" thing\t").until("after the turn: third thing")
    terminal.type("/queue drop 9\r").until("no waiting message has the number 9")
    terminal.type("/queue hold\r").until("held until /queue release: first")
    hold.set()
    terminal.until("done in")
    assert len(chat.server.requests) == 1
    terminal.type("/queue release\r").until("Heard.")
    said = str(chat.server.requests[1].body["messages"])
    assert [text in said for text in ("first", "second", "third thing", "fourth")] == [
        *(True, False, True, True)
    ]


def test_tasks_names_and_notes_are_shown(agent, chat):
    calls = [
        Call("todo", {"tasks": TASKS}),
        Call("memory", {"command": "add", "text": "Built by make."}),
    ]
    terminal = chat(Reply("", calls), Reply("Noted."))
    terminal.type("begin\r").until("done in")
    terminal.type("/todo\r").until("todo: 1/2 done")
    terminal.type("/rename the parser\r").until("named the parser")
    terminal.type("/memory\r").until("1 note on this project")
    assert "the parser" in agent("sessions", "list").stdout


def test_notes_are_edited_in_the_persons_editor(agent, chat, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho 'Written by hand.' > \"$2\"\n")
    editor.chmod(0o755)
    terminal = chat(EDITOR=f"{editor} --wait")
    terminal.type("/memory edit user\r").until("from the next session on")
    terminal.type("/memory\r").until("- Written by hand.")


def test_a_session_is_written_to_a_file(agent, chat):
    terminal = chat(Reply("The answer."))
    terminal.type("the question\r").until("done in")
    terminal.type("/export talk.md\r").until("written as markdown")
    assert "The answer." in (agent.workspace / "talk.md").read_text()
    terminal.type("/export talk.md\r").until("already exists")
    terminal.type("/export json\r").until("written as json")
    assert len(list(agent.workspace.glob("*.json"))) == 1
    terminal.type("/export talk\r").until("is 'talk' a format or a file?")
    # As a command of the session could have left them.
    (agent.workspace / f"{agent.sessions[0].name}.md").symlink_to(agent.home / ".profile")
    (agent.workspace / "docs").symlink_to(agent.home)
    terminal.type("/export markdown\r").until("leads through a link")
    terminal.type("/export docs/.profile\r").until(
        lambda rows: sum("leads through a link" in row for row in rows) == 2
    )
    terminal.type("/export ../talk.md\r").until(
        f"written as markdown: {agent.workspace.parent}/talk"
    )
    assert not (agent.home / ".profile").exists()
    terminal.type("/export ~no-such-user/talk.md\r").until("there is no user no-such-user")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("/staus", "did you mean /status?"),
        ("/nope", "see /help"),
        ("/cost all", "/cost takes nothing after its name"),
        (f"/rewind {'9' * 5000}", "is not a number"),
    ],
)
def test_what_is_no_command_is_said_and_not_sent(chat, typed, told):
    terminal = chat()
    terminal.type(typed).type("\r").until(told)
    assert not chat.server.requests


def test_init_asks_for_a_description_of_the_project(chat):
    terminal = chat(Reply("Written."))
    terminal.type("/init in German\r").until("Written.")
    assert "AGENTS.md" in last_said(chat.server)
    assert "in German" in last_said(chat.server)
    assert not any("> Look at" in row for row in terminal.until("done in"))


REVIEW = (
    "---\ndescription: Look at it strictly\nargument-hint: FILE\n---\nReview $1. All: $ARGUMENTS"
)


def test_own_commands_say_their_text_with_the_arguments(agent, chat):
    folder = agent.home / ".config/agent/commands"
    command_file(folder, "review", REVIEW)
    command_file(folder, "help", "Never said.")
    terminal = chat(Reply("Reviewed."))
    terminal.until("/help is built in")
    terminal.type("/rev").until("Look at it strictly")
    terminal.type("iew 'a b.py' $1\r").until("Reviewed.")
    assert "Review a b.py. All: 'a b.py' $1" in last_said(chat.server)
    assert "> /review 'a b.py' $1" in terminal.until("done in")
    command_file(folder, "new-one", "Added meanwhile.")
    terminal.type("/help new-one\r").until("Added meanwhile.")


def test_commands_of_a_project_wait_until_it_is_trusted(agent, chat, talk):
    command_file(agent.workspace / ".agent/commands", "deploy", "Deploy it.")
    assert agent("trust", "--yes").returncode == 0
    terminal = chat(Reply("Deployed."))
    terminal.type("/deploy now\r").until("Deployed.")
    assert "Deploy it.\n\nnow" in last_said(chat.server)
    terminal.until("done in")
    command_file(agent.workspace / ".agent/commands", "deploy", "Delete it.")
    terminal.type("/deploy\r").until("not trusted")
    assert len(chat.server.requests) == 1


def test_a_mistake_in_a_clone_is_told_and_stops_nothing(agent, serve, talk):
    command_file(agent.workspace / ".agent/commands", "deploy", "Deploy it.")
    (agent.workspace / ".agent/config.toml").write_text("[agent]\nmax_turn = 3\n")
    agent.use(serve([]))
    terminal = talk(columns=200)
    terminal.until("there is no setting 'agent.max_turn'")
    terminal.until(lambda rows: any(row.startswith(">") for row in rows))
    terminal.type("n\r").until(READY)
    terminal.type("/help deploy\r").until("/deploy belongs to this folder, which is not trusted")


def test_skills_are_listed_and_called_by_name(agent, chat):
    header = "name: tidy\ndescription: How to tidy up\ninputs:\n- name: place\n"
    folder = agent.workspace / ".agents/skills/tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\n{header}---\nSweep ${{place}}.\n")
    terminal = chat(Reply("Swept."))
    terminal.type("/skills\r").until("How to tidy up")
    terminal.type("/tidy\r").until("/tidy needs place")
    terminal.type("\x03").type("/tidy the attic\r").until("Swept.")
    assert "Sweep the attic." in str(chat.server.requests[0].body["messages"])


def test_the_document_names_the_commands_as_they_are():
    text = (Path(__file__).parents[2] / "docs/conversation.md").read_text()
    told = dict(re.findall(r"^\| `/([\w-]+)[^`]*` \| (.*) \|$", text, re.MULTILINE))
    there = {name: first_line(each.help) for name, each in slash_commands().items()}
    assert told == there
