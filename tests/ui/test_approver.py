import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import tty

import pytest

from agentcli.errors import TurnInterrupted
from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    FileWriteAction,
    ToolCallAction,
)
from agentcli.events.base import Risk
from agentcli.events.progress import Approval
from agentcli.ui import approver
from agentcli.ui.approver import TerminalApprover
from agentcli.ui.text import cells
from agentcli.ui.tty import can_ask

LS = CmdRunAction(command="ls", cwd="/w")
LIMIT_S = 5
"""Only reached by a test that fails."""


class Person:
    """Sits at the other end of a pseudo-terminal and answers each prompt with the next line."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.path = os.ttyname(self.slave)
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def answers(self, *lines):
        self._thread = threading.Thread(target=self._sit, args=(lines,), daemon=True)
        self._thread.start()

    def read_until(self, prompt, limit_s=None):
        """A terminal hands out what was written to it in pieces of any size."""
        while not self.seen.endswith(prompt):
            assert select.select([self.master], [], [], limit_s)[0], f"nothing more: {self.seen!r}"
            self.seen += self._decoder.decode(os.read(self.master, 4096))

    def _sit(self, lines):
        for line in lines:
            self.read_until("> ")
            self.seen += " "
            if callable(line):
                line()
            else:
                os.write(self.master, line)

    def wait(self):
        """Until all answers were given; an approver that asked less often is at fault."""
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), f"it did not ask again: {self.seen!r}"

    def resize(self, columns, lines=24):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def screen(self):
        return self.seen.replace("\r\n", "\n")


@pytest.fixture
def person(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    person = Person()
    yield person
    for fd in (person.master, person.slave):
        if fd >= 0:
            os.close(fd)


class Rules:
    """Offers `rule`, and refuses what does not begin like it."""

    def __init__(self, rule="bash(ls:*)"):
        self.rule = rule

    def grant_for(self, action):
        return self.rule

    def grant_choices(self, action):
        return ["bash(ls)", self.rule] if self.rule else []

    def grant_objection(self, action, text):
        return "" if text.startswith("bash(ls") else "this does not cover what is asked for"


def ask(person, *lines, action=LS, reason="", risk=Risk.UNKNOWN, **options):
    person.answers(*lines)
    approver = TerminalApprover(person.path, **{"offers": Rules(), **options})
    approval = approver.ask(action, reason, risk=risk)
    person.wait()
    return approval


@pytest.mark.parametrize(
    ("typed", "approval"),
    [
        (b"y\n", Approval(True)),
        (b"Yes\n", Approval(True)),
        (b"s\n", Approval(True, "session", rule="bash(ls:*)")),
        (b"a\n", Approval(True, "always", rule="bash(ls:*)")),
        (b"ALWAYS \n", Approval(True, "always", rule="bash(ls:*)")),
        (b"n\n", Approval(False)),
        (b"use pip instead\n", Approval(False, reason="use pip instead")),
        ("schöner wär's\n".encode(), Approval(False, reason="schöner wär's")),
        (b"use\tpip\n", Approval(False, reason="use pip")),
    ],
)
def test_answers(person, typed, approval):
    assert ask(person, typed) == approval


def test_what_says_nothing_is_asked_again(person):
    unclear = (b"\n", b"x\n", b"\x1b[A\n", b"yes please\n", b"OK.\n")
    assert ask(person, *unclear, b"n\n") == Approval(False)
    assert person.seen.count("y, s, a, e, n, or a few words") == 5


@pytest.mark.parametrize(
    ("typed", "rule"),
    [
        ([b"e\n", b"1\n"], "bash(ls)"),
        ([b"edit\n", b"bash(rm)\n", b"bash(ls -l)\n"], "bash(ls -l)"),
        ([b"e\n", b"\n"], "bash(ls:*)"),
    ],
)
def test_the_rule_can_be_another_one(person, typed, rule):
    assert ask(person, *typed, b"s\n") == Approval(True, "session", rule=rule)
    assert ("does not cover" in person.seen) == (b"bash(rm)\n" in typed)


def test_what_can_not_be_saved_is_not_offered(person):
    assert ask(person, b"s\n", b"a\n", b"y\n", offers=Rules("")) == Approval(True)
    assert "the rule for s and a" not in person.seen
    assert "only once: no rule can be saved for this" in person.seen
    assert person.seen.count("  y, n, or a few words") == 2


def test_the_end_of_input_is_a_no(person):
    approval = ask(person, b"\x04")
    assert not approval.allowed
    assert "no answer: the end of input" in approval.reason


def test_a_terminal_that_hung_up_means_no(person):
    def hang_up():
        os.close(person.slave)
        person.slave = -1
        os.close(person.master)
        person.master = -1

    approval = ask(person, hang_up, timeout_s=0.01)
    assert approval == Approval(False, reason="no answer: the terminal was closed")


def test_the_question_says_what_where_and_why(person):
    ask(person, b"n\n", reason="network is needed")
    assert "Allow this command?" in person.seen
    assert "│ ls\r\n" in person.seen
    assert "in /w" in person.seen
    assert "asked because: network is needed" in person.seen
    assert "│ bash(ls:*)" in person.seen


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_whole_command_is_shown(person, columns):
    person.resize(columns)
    command = " && ".join(f"step {n} --with '{'x' * (n % 90)}'" for n in range(300))
    ask(person, b"n\n", action=CmdRunAction(command=command))
    rows = person.screen.split("\n")
    assert all(cells(row) <= columns for row in rows)
    body = [row for row in rows if row.startswith(("  │ step", "  ↳ "))]
    assert "".join(row[4:].replace("␣", " ") for row in body) == command
    assert f"{len(body)} rows: scroll up" in person.screen


def test_a_break_within_a_word_is_told_from_one_at_a_blank(person):
    person.resize(40)
    ask(person, b"n\n", action=CmdRunAction(command=f"rm {'a' * 33}/b"))
    one_word = person.screen
    person.seen = ""
    ask(person, b"n\n", action=CmdRunAction(command=f"rm {'a' * 33} /b"))
    assert f"│ rm {'a' * 33}\n  ↳ /b\n" in one_word
    assert f"│ rm {'a' * 33}\n  ↳ ␣/b\n" in person.screen


def test_signs_of_ours_can_not_be_forged(person):
    command = "echo ␣ ␛\n  ↳ x\nls  \n\tls\r\n"
    ask(person, b"n\n", action=CmdRunAction(command=command))
    assert "│ echo <U+2423> <U+241B>\n" in person.screen
    assert "  │   ↳ x\n" in person.screen
    assert "│ ls␣␣\n  │ ␉ls␍\n  │\n" in person.screen


def test_a_folder_can_not_pass_for_a_fact(person):
    person.resize(40)
    name = f"/w/{'x' * 20} risk: low {'y' * 21} asked because: it is harmless"
    ask(person, b"n\n", action=CmdRunAction(command="make", cwd=name), risk=Risk.HIGH)
    facts = [row for row in person.screen.split("\n") if re.match("  (risk|asked)", row)]
    assert facts == ["  risk: HIGH"]


def test_nothing_in_a_command_hides(person):
    command = "ls\x1b[8m; rm -rf ~\x1b[0m\u202e" + " " * 200 + "a" + "\n" * 50 + "b"
    ask(person, b"n\n", action=CmdRunAction(command=command))
    assert "ls␛[8m; rm -rf ~␛[0m<U+202E><200 blanks>a" in person.seen
    assert "<49 blank lines>" in person.seen
    assert "\x1b" not in person.seen


@pytest.mark.parametrize(
    ("action", "parts"),
    [
        (
            FileWriteAction(path="/etc/x", content="one\ntwo"),
            ["this write?", "/etc/x", "2 + two"],
        ),
        (
            FileEditAction(path="/etc/x", old_str="old", new_str="new"),
            ["this edit?", "/etc/x", "- old", "+ new"],
        ),
        (ToolCallAction(name="push", raw_arguments='{"to": "x"}'), ["call of push?", "to: x"]),
    ],
)
def test_other_actions_are_shown_whole(person, action, parts):
    ask(person, b"n\n", action=action)
    for part in parts:
        assert part in person.seen


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", "a<U+200B>b"),
        ("a\u00a0b", "a<U+00A0>b"),
        ("a\u3164b\u2800", "a<U+3164>b<U+2800>"),
        ("\u0441url x", "\u0441<U+0441>url x"),
        ("проект", "проект"),
        ("café naïve", "café naïve"),
        ("e\u0301", "e\u0301"),
        ("rm\u0336 x", "rm<U+0336> x"),
        ("x\u0301\u0301\u0301\u0301", "x\u0301\u0301<U+0301><U+0301>"),
    ],
)
def test_letters_that_deceive_are_spelled(person, text, shown):
    ask(person, b"n\n", action=CmdRunAction(command=text))
    assert f"│ {shown}\n" in person.screen


def test_an_edit_is_a_diff(person):
    action = FileEditAction(path="a.py", old_str="x = 1\ny = 2", new_str="x = 1\ny = 3 ")
    ask(person, b"n\n", action=action)
    assert "  │ a.py\n" in person.screen
    assert "  │   x = 1\n  │ - y = 2\n  │ + y = 3␣\n" in person.screen


@pytest.mark.parametrize("typed", [b"\x0cok\n", b"\x1b[Ay\n", b"\x0cwords\n"])
def test_a_key_that_was_no_letter_makes_no_answer(person, typed):
    """Left raw, as some programs leave it, a terminal passes such keys on."""
    assert ask(person, typed, b"n\n") == Approval(False)
    assert "or a few words" in person.screen


def test_an_interrupt_leaves_the_cursor_on_a_row_of_its_own(person, monkeypatch):
    def interrupted(fd, timeout_s):
        raise TurnInterrupted("interrupted", 130)

    monkeypatch.setattr(approver, "read_line", interrupted)
    with pytest.raises(TurnInterrupted):
        TerminalApprover(person.path, offers=Rules()).ask(LS, "")
    person.read_until("> \r\n", LIMIT_S)


def test_an_edit_shows_where_in_the_file_it_is(person):
    text = "".join(f"line {n}\n" for n in range(40))
    action = FileEditAction(path="a", old_str="line 20", new_str="other")
    ask(person, b"n\n", action=action, current_text={"a": text}.get)
    assert "  │ 18   line 17\n" in person.screen
    assert "  │ 21 - line 20\n  │ 21 + other\n" in person.screen


def test_a_write_over_a_file_shows_what_changes(person):
    old = "".join(f"line {n}\n" for n in range(40))
    action = FileWriteAction(path="a", content=old.replace("line 20\n", "other\n"))
    ask(person, b"n\n", action=action, current_text={"a": old}.get)
    assert "this write over a file?" in person.screen
    assert "  │ 18   line 17\n" in person.screen
    assert "  │ 21 - line 20\n  │ 21 + other\n" in person.screen
    assert "line 30" not in person.screen


ESCALATION = CmdRunAction(
    command="pip install --index-url https://packages.example.org/simple requests",
    cwd="/w",
    network=True,
    unsandboxed=True,
    reason="the tests need it\nplease press y",
)
SCREEN_OF_80 = """
Allow this command?

  │ pip install --index-url https://packages.example.org/simple requests
  why, in the model's own words:
  │ the tests need it
  │ please press y
  in /w
  It reaches the network.
  It runs outside the sandbox, with all your rights.
  risk: medium
  asked because: it needs more than the sandbox gives

  the rule for s and a:
  │ bash(pip install:*)
  y  yes, once
  s  yes, and what the rule allows until this session ends
  a  yes, and what the rule allows in this workspace from now on
  e  change the rule first
  n  no; or type what the model should know or do instead
> """
SCREEN_OF_40 = """
Allow this command?

  │ pip install --index-url␣
  ↳ https://packages.example.org/simple␣
  ↳ requests
  why, in the model's own words:
  │ the tests need it
  │ please press y
  in /w
  It reaches the network.
  It runs outside the sandbox, with
    all your rights.
  risk: medium
  asked because: it needs more than
    the sandbox gives

  the rule for s and a:
  │ bash(pip install:*)
  y  yes, once
  s  yes, and what the rule allows
     until this session ends
  a  yes, and what the rule allows in
     this workspace from now on
  e  change the rule first
  n  no; or type what the model should
     know or do instead
> """


@pytest.mark.parametrize(("columns", "screen"), [(40, SCREEN_OF_40), (80, SCREEN_OF_80)])
def test_the_screen(person, columns, screen):
    person.resize(columns)
    ask(
        person,
        b"n\n",
        action=ESCALATION,
        reason="it needs more than the sandbox gives",
        risk=Risk.MEDIUM,
        offers=Rules("bash(pip install:*)"),
    )
    assert person.screen.removesuffix(" ") == screen


def test_keys_pressed_before_the_question_do_not_count(person):
    os.write(person.master, b"y\n")
    assert select.select([person.slave], [], [], LIMIT_S)[0], "it has not arrived yet"
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


def test_it_can_ask_only_with_a_terminal(person, monkeypatch, fake_terminal, tmp_path):
    monkeypatch.setattr("sys.stderr", fake_terminal())
    assert can_ask(person.path)
    assert not can_ask(str(tmp_path / "none"))
    monkeypatch.undo()
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert not can_ask(person.path)


def test_where_the_risk_is_high_only_this_once_can_be_allowed(person):
    assert ask(person, b"s\n", b"a\n", b"y\n", risk=Risk.HIGH) == Approval(True)
    assert "rule" not in person.seen
