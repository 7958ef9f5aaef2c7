import os
import pty
import signal
import termios
import threading
import tty

import pytest

from agentcli.events.actions import (
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileWriteAction,
    MCPAction,
)
from agentcli.ui.approver import Approval, TerminalApprover

LS = CmdRunAction(command="ls", cwd="/w")


class Person:
    """Sits at the other end of a pseudo-terminal and answers each prompt with the next line."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.path = os.ttyname(self.slave)
        self.seen = ""

    def answers(self, *lines):
        self._thread = threading.Thread(target=self._sit, args=(lines,), daemon=True)
        self._thread.start()

    def _sit(self, lines):
        for line in lines:
            while not self.seen.endswith("> "):
                self.seen += os.read(self.master, 4096).decode()
            self.seen += " "
            if callable(line):
                line()
            else:
                os.write(self.master, line)

    def wait(self):
        self._thread.join()


@pytest.fixture
def person():
    person = Person()
    yield person
    os.close(person.master)
    os.close(person.slave)


def ask(person, *lines, action=LS, reason="", **options):
    person.answers(*lines)
    approval = TerminalApprover(person.path, color=False, **options).ask(action, reason)
    person.wait()
    return approval


@pytest.mark.parametrize(
    ("typed", "approval"),
    [
        (b"y\n", Approval(True)),
        (b"Yes\n", Approval(True)),
        (b"a\n", Approval(True, "session")),
        (b"n\n", Approval(False)),
        (b"use pip instead\n", Approval(False, reason="use pip instead")),
        ("schöner wär's\n".encode(), Approval(False, reason="schöner wär's")),
    ],
)
def test_answers(person, typed, approval):
    assert ask(person, typed) == approval


def test_what_says_nothing_is_asked_again(person):
    assert ask(person, b"\n", b"x\n", b"\x1b[A\n", b"n\n") == Approval(False)
    assert person.seen.count("y, a, n, or a few words") == 3


def test_the_end_of_input_is_a_no(person):
    approval = ask(person, b"\x04")
    assert not approval.allowed
    assert "no answer" in approval.reason


def test_the_question_says_what_where_and_why(person):
    ask(person, b"n\n", reason="network is needed")
    assert "Allow this command?" in person.seen
    assert "│ ls\r\n" in person.seen
    assert "in /w" in person.seen
    assert "asked because: network is needed" in person.seen
    assert "yes, and all commands until this session ends" in person.seen


def test_the_whole_command_is_shown(person):
    command = " && ".join(f"step {n}" for n in range(300))
    ask(person, b"n\n", action=CmdRunAction(command=command))
    assert command in person.seen


def test_nothing_in_a_command_hides(person):
    command = "ls\x1b[8m; rm -rf ~\x1b[0m\u202e" + " " * 200 + "a" + "\n" * 50 + "b"
    ask(person, b"n\n", action=CmdRunAction(command=command))
    assert "ls␛[8m; rm -rf ~␛[0m<U+202E><200 blanks>a" in person.seen
    assert "<49 empty lines>" in person.seen
    assert "\x1b" not in person.seen


@pytest.mark.parametrize(
    ("action", "parts"),
    [
        (
            FileWriteAction(path="/etc/x", content="one\ntwo"),
            ["this write", "/etc/x", "two", "all writes outside the workspace"],
        ),
        (
            FileEditAction(path="/etc/x", old_str="old", new_str="new"),
            ["this edit", "str_replace /etc/x", "- old", "+ new"],
        ),
        (MCPAction(server="github", name="push"), ["github", "all calls of push on github"]),
        (BrowseURLAction(url="https://example.org"), ["https://example.org"]),
    ],
)
def test_other_actions_are_shown_whole(person, action, parts):
    ask(person, b"n\n", action=action)
    for part in parts:
        assert part in person.seen


def test_the_grant_can_be_told_in_other_words(person):
    ask(person, b"n\n", grant_text=lambda action: "everything in /w")
    assert "yes, and everything in /w until" in person.seen


def test_keys_pressed_before_the_question_do_not_count(person):
    os.write(person.master, b"y\n")
    assert ask(person, b"n\n") == Approval(False)


def test_a_terminal_left_raw_is_put_right_and_back(person):
    tty.setraw(person.slave)
    before = termios.tcgetattr(person.slave)
    assert ask(person, b"y\r") == Approval(True)
    assert termios.tcgetattr(person.slave) == before


def test_an_interrupt_passes_through(person):
    main = threading.main_thread().ident
    before = termios.tcgetattr(person.slave)
    with pytest.raises(KeyboardInterrupt):
        ask(person, lambda: signal.pthread_kill(main, signal.SIGINT))
    assert termios.tcgetattr(person.slave) == before


def test_others_make_room_first(person):
    order = []
    ask(person, b"n\n", before_asking=lambda: order.append(person.seen))
    assert order == [""]


def test_available_only_with_a_terminal(person, monkeypatch, fake_terminal, tmp_path):
    monkeypatch.setattr("sys.stderr", fake_terminal())
    assert TerminalApprover(person.path).available()
    assert not TerminalApprover(str(tmp_path / "none")).available()
    monkeypatch.undo()
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert not TerminalApprover(person.path).available()
