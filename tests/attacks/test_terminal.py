"""Text of models, tools, files, servers and settings that would take over the terminal it is shown
on: every command, run on a real one, shows it harmless."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.text import say
from tests.attacks.raids import bash
from tests.conftest import LIMIT_S
from tests.server import Call, HttpError, Reply

CLIPBOARD = "\x1b]52;c;Y2FuYXJ5\x07"
PAYLOAD = (
    f"{CLIPBOARD}\x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\\x1b]0;title\x07\x1b[2J\x1b[6n"
    "\x1bP$qm\x1b\\\x9b2J\x9d52;c;Y2Fu\x9c\x1bc\x1b[?1049h\u202etxt.exe\u2066\x08\x08\x07\rovertyped"
)
FILE_NAME = os.fsdecode(b"evil\xff\x9b2J\x1b]52;c;Y2Fu\x07\x1b[2J\r\nname\xe2\x80\xae.txt")
TAKES_OVER = {
    "clipboard, title or link": "\x1b]",
    "device string": "\x1bP",
    "reset": "\x1bc",
    "question that the terminal answers as if typed": "\x1b[6n",
    "clear": "\x1b[2J",
    "other screen": "\x1b[?1049h",
    "8-bit sequence": "\x9b",
    "8-bit clipboard": "\x9d",
    "order of letters": "\u202e",
    "isolated order of letters": "\u2066",
    "backspace": "\x08",
    "bell": "\x07",
    "overtyping": "\rovertyped",
}


OWN_TITLE = re.compile(r"\x1b\[2[23];0t|\x1b\]0;(?!title)[^\x00-\x1f\x7f-\x9f]*\x07")
"""The title that agent gives the terminal itself; that of the payload is another."""


def harmless(shown: str) -> None:
    shown = OWN_TITLE.sub("", shown)
    found = [what for what, sequence in TAKES_OVER.items() if sequence in shown]
    assert not found, (found, shown)


@pytest.fixture
def show(agent) -> Callable[..., str]:
    """What one `agent` command, at a terminal, sends to it; `workspace` is where it is started."""

    def run(*arguments: str, workspace: Path | None = None, **env: str) -> str:
        child = pexpect.spawn(
            agent.command[0],
            [*agent.command[1:], *arguments],
            cwd=str(workspace or agent.workspace),
            env={**agent.environment, "TERM": "xterm-256color", **env},
            dimensions=(40, 100),
            timeout=LIMIT_S,
            encoding="utf-8",
            codec_errors="surrogateescape",
        )
        shown = ""
        while child.expect([pexpect.EOF, "do not ask again\r\n> ", "Enter to leave: "]):
            shown += child.before
            child.sendline("")
        shown += child.before
        child.close()
        return shown

    return run


SCRIPT = [
    Reply(
        f"I say {PAYLOAD}",
        [
            Call("write", {"path": "a\x1b[2J\x9b.txt", "content": f"text {PAYLOAD}\n"}),
            bash(f"printf '%s\\n' {json.dumps(PAYLOAD)}; ls"),
            Call("grep", {"pattern": "."}),
            Call("glob", {"pattern": "*"}),
            Call("read", {"path": f"nothing{PAYLOAD}"}),
            Call("todo", {"items": [{"title": f"do {PAYLOAD}", "status": "done"}]}),
            Call(f"tool{PAYLOAD}"[:40].replace("\x1b", "_"), {"x": PAYLOAD}),
        ],
        reasoning=f"I think {PAYLOAD}",
    ),
    Reply(f"# Done {PAYLOAD}\n\n- `{PAYLOAD}`\n\n```sh\n{PAYLOAD}\n```\n[x](http://{PAYLOAD})\n"),
]


def test_a_run_and_all_that_is_told_of_it_later(agent, serve, show):
    (agent.workspace / FILE_NAME).write_text(PAYLOAD)
    agent.use(serve(SCRIPT))
    shown = show("run", "--yolo", f"task {PAYLOAD}")
    assert "I say" in shown
    assert "Done" in shown
    harmless(shown)
    for command in (
        ["sessions", "list"],
        ["sessions", "show", "last"],
        ["sessions", "search", "task"],
        ["sessions", "cost", "last"],
        ["sessions", "export", "last", "--format", "markdown"],
        ["policy", "show"],
        ["diff"],
        ["rewind", "--json"],
        ["undo"],
    ):
        harmless(show(*command))


def test_names_of_sessions_and_folders(agent, serve, show):
    folder = agent.workspace / FILE_NAME
    folder.mkdir()
    agent.use(serve([Reply("ok")]))
    harmless(show("run", "x", workspace=folder))
    harmless(show("sessions", "list", "--all", workspace=folder))
    harmless(show("sessions", "rename", "last", PAYLOAD, workspace=folder))
    harmless(show("doctor", workspace=folder))
    harmless(show("trust", "--show", workspace=folder))


def test_what_servers_say(agent, serve, show):
    agent.use(serve([HttpError(400, message=f"no such {PAYLOAD}")]))
    shown = show("run", "x")
    assert "no such" in shown
    harmless(shown)


@pytest.mark.parametrize(
    ("where", "commands"),
    [
        ("project", (["config", "show", "--origin"], ["doctor"], ["models"], ["run", "x"])),
        ("user", (["config", "show", "--origin"], ["run", "x"])),
    ],
)
@pytest.mark.parametrize(
    "toml",
    [
        f'"{"key" + chr(92) + "u001b]52;c;Y2Fu" + chr(92) + "u0007"}" = 1\n',
        '[agent]\napproval = "\\u001b]52;c;Y2Fu\\u0007\\u202e"\n',
        '[model]\nname = "x/\\u001b]52;c;Y2Fu\\u0007\\u202e"\n',
        f"# {PAYLOAD}\n= broken",
    ],
)
def test_settings_and_complaints_about_them(agent, show, where, commands, toml):
    path = agent.workspace / ".agent/config.toml"
    if where == "user":
        path = agent.home / "config.toml"
        agent.env["AGENT_CONFIG"] = str(path)
    path.parent.mkdir(exist_ok=True)
    path.write_text(toml)
    for command in commands:
        harmless(show(*command))


def test_arguments_that_are_wrong(show):
    for command in (["run", f"--{PAYLOAD}"], ["sessions", "show", PAYLOAD], [PAYLOAD]):
        harmless(show(*command))


@given(st.text(st.one_of(st.characters(), st.sampled_from(PAYLOAD))))
def test_the_printer_lets_nothing_through(text):
    to = io.StringIO()
    say(text, to)
    shown = to.getvalue()
    harmless(shown)
    assert not [c for c in shown if (c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f"]
