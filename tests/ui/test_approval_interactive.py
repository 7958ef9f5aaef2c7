"""A question that is answered by keys, on a terminal of the tests' own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import threading
import tty
from collections.abc import Callable

import pyte
import pytest

from agentcli.events.actions import CmdRunAction
from agentcli.events.base import Risk
from agentcli.events.progress import Approval
from agentcli.ui.approver import TerminalApprover
from tests.ui.test_approver import ESCALATION, Rules

LIMIT_S = 8
"""Only reached by a test that fails."""
DOWN, UP, ENTER, ESC = b"\x1b[B", b"\x1b[A", b"\r", b"\x1b"
PAGE_DOWN, PAGE_UP, END = b"\x1b[6~", b"\x1b[5~", b"\x1b[4~"
PUSH = CmdRunAction(command="git push origin main", cwd="/w", network=True, reason="to publish")
LONG = CmdRunAction(command="\n".join(f"step {n}" for n in range(100)))
ASKED = "Allow this command?"


def pasted(text: bytes) -> bytes:
    """As a terminal sends it that tells what is pasted."""
    return b"\x1b[200~" + text + b"\x1b[201~"


class Terminal:
    """An emulator at the other end of a pseudo-terminal; someone types when they see something."""

    def __init__(self, columns=80, lines=30):
        self.master, self.slave = pty.openpty()
        self.path = os.ttyname(self.slave)
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.sent = b""
        self.resize(columns, lines)
        os.write(self.slave, b"before\r\n")

    def resize(self, columns, lines):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen.resize(lines, columns)

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self._screen.display).rstrip()

    def read(self, until: Callable[[], bool]) -> None:
        while not until():
            assert select.select([self.master], [], [], LIMIT_S)[0], f"it shows:\n{self.text}"
            data = os.read(self.master, 65536)
            self.sent += data
            self._stream.feed(data)

    def ask(self, *steps, action=PUSH, **options):
        """What was answered. A step is what must be seen, and then the keys or something to do."""
        risk = options.pop("risk", Risk.UNKNOWN)
        failed, answered = [], threading.Event()
        person = threading.Thread(target=self._type, args=(steps, failed, answered), daemon=True)
        person.start()
        approver = TerminalApprover(self.path, **{"offers": PUSHES, "timeout_s": 1, **options})
        try:
            return approver.ask(action, "it wants network access", risk=risk)
        finally:
            answered.set()
            person.join(LIMIT_S)
            assert not failed, failed
            self.read(lambda: self.sent.count(b"\x1b[?2004l") == self.sent.count(b"\x1b[?2004h"))

    def _type(self, steps, failed, answered):
        try:
            for seen, keys in steps:
                self.read(lambda seen=seen: seen in self.text)
                if callable(keys):
                    keys()
                else:
                    os.write(self.master, keys)
            assert answered.wait(LIMIT_S), "that was no answer"
        except BaseException as error:
            failed.append(error)
            os.close(self.master)
            self.master = -1


class Pushes(Rules):
    def grant_choices(self, action):
        return ["bash(git push origin main)", "bash(git push origin:*)", "bash(git push:*)"]

    def grant_objection(self, action, text):
        return "" if text.startswith("bash(git push") else "this does not cover what is asked for"


PUSHES = Pushes("bash(git push:*)")


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    made = []

    def make(*size):
        made.append(Terminal(*size))
        return made[-1]

    yield make
    for each in made:
        for fd in (each.master, each.slave):
            if fd >= 0:
                os.close(fd)


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ([(ASKED, b"y")], Approval(True)),
        ([(ASKED, b"Y")], Approval(True)),
        ([(ASKED, b"s")], Approval(True, "session", rule="bash(git push:*)")),
        ([(ASKED, b"a")], Approval(True, "always", rule="bash(git push:*)")),
        ([(ASKED, b"n")], Approval(False)),
        ([(ASKED, ESC)], Approval(False)),
        ([(ASKED, DOWN), ("> y", ENTER)], Approval(True)),
        (
            [(ASKED, DOWN), ("> y", DOWN), ("> s", ENTER)],
            Approval(True, "session", rule=PUSHES.rule),
        ),
        ([(ASKED, UP), ("> t", UP), ("> n", ENTER)], Approval(False)),
        ([(ASKED, DOWN + ENTER)], Approval(True)),
        ([(ASKED, b"y\r")], Approval(True)),
        ([(ASKED, ENTER), ("one key", b"n")], Approval(False)),
        ([(ASKED, b"x"), ("one key", b"n")], Approval(False)),
        (
            [(ASKED, b"t"), ("Enter sends", b"ab"), ("│ ab", b"\x1b[Dx\r")],
            Approval(False, reason="axb"),
        ),
        (
            [(ASKED, b"t"), ("Enter sends", b"use the mirror\r")],
            Approval(False, reason="use the mirror"),
        ),
        (
            [(ASKED, b"t"), ("Enter sends", "größer".encode()), ("größer", b"\x7f\x7fx\r")],
            Approval(False, reason="größx"),
        ),
        ([(ASKED, b"t"), ("Enter sends", ESC), ("yes, once", b"y")], Approval(True)),
        ([(ASKED, b"\x04")], Approval(False, reason="no answer: the end of input was typed")),
    ],
)
def test_one_key_answers_or_arrows_do(terminal, steps, answer):
    place = terminal()
    assert place.ask(*steps) == answer
    assert place.text == "before"


SCREENS = {
    60: """
before

Allow this command?

  │ pip install --index-url https://packages.example.org/si
  ↳ mple requests
  why, in the model's own words:
  │ the tests need it
  │ please press y
  in /w
  It reaches the network.
  It runs outside the sandbox, with all your rights.
  risk: medium
  asked because: it wants network access

  the rule for s and a:
  │ bash(git push:*)
  y  yes, once
  s  yes, and what the rule allows until this session ends
  a  yes, and what the rule allows in this workspace from
     now on
  e  change the rule first
  n  no (or Esc)
  t  no; type what the model should know or do instead""",
    80: """
before

Allow this command?

  │ pip install --index-url https://packages.example.org/simple requests
  why, in the model's own words:
  │ the tests need it
  │ please press y
  in /w
  It reaches the network.
  It runs outside the sandbox, with all your rights.
  risk: medium
  asked because: it wants network access

  the rule for s and a:
  │ bash(git push:*)
  y  yes, once
  s  yes, and what the rule allows until this session ends
  a  yes, and what the rule allows in this workspace from now on
  e  change the rule first
  n  no (or Esc)
  t  no; type what the model should know or do instead""",
}
SCREENS[120] = SCREENS[80]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_screen(terminal, columns):
    place, seen = terminal(columns), []
    options = {"action": ESCALATION, "risk": Risk.MEDIUM}
    place.ask(("do instead", lambda: seen.append(place.text)), (ASKED, b"n"), **options)
    assert "\n" + seen[0] == SCREENS[columns]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_long_action_is_scrolled_and_nothing_of_it_stays(terminal, columns):
    place = terminal(columns, 24)
    page = 8 if columns == 60 else 9
    answer = place.ask(
        ("│ step 0\n", PAGE_DOWN),
        (f"rows {1 + page} to {2 * page} of 100", b"j"),
        (f"rows {2 + page} to", PAGE_UP),
        ("rows 2 to", b"k" * 5),
        ("rows 1 to", END),
        ("│ step 99\n", b"y"),
        action=LONG,
    )
    assert answer == Approval(True)
    assert "step" not in place.text


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("colors", ["color", "none"])
def test_what_has_not_been_on_the_screen_to_its_end_is_not_allowed(
    terminal, monkeypatch, columns, colors
):
    if colors == "color":
        monkeypatch.delenv("NO_COLOR")
    place = terminal(columns, 26)
    deed = CmdRunAction(command="\n".join([*(f"# step {n}" for n in range(73)), "deed"]))
    told, not_yet = "go to the last row (PgDn, End)", "not allowed yet"
    answer = place.ask(
        (told, b"y"),
        (not_yet, b"x"),
        ("one key; or arrows", b"a"),
        (not_yet, b"x"),
        ("one key; or arrows", b"\x1b[B"),
        ("> y", ENTER),
        (not_yet, END),
        ("│ deed\n", b"y"),
        action=deed,
    )
    assert answer == Approval(True)
    assert place.ask((told, b"n"), action=deed) == Approval(False)


def test_the_rule_is_narrowed_before_it_is_saved(terminal):
    answer = terminal().ask(
        (ASKED, b"e"),
        ("> 3  bash(git push:*)", UP),
        ("> 2  bash(git push origin:*)", ENTER),
        ("│ bash(git push origin:*)", b"a"),
    )
    assert answer == Approval(True, "always", rule="bash(git push origin:*)")
    assert terminal().ask((ASKED, b"e"), ("narrowest", b"1"), ("yes, once", b"s")).rule == (
        "bash(git push origin main)"
    )


def test_a_rule_that_is_written_must_cover_what_is_asked(terminal):
    answer = terminal().ask(
        (ASKED, b"e"),
        ("4  another one", b"4"),
        ("The rule, such as", b"\x15bash(rm:*)\r"),
        ("does not cover what is asked", b"\x15bash(git push origin main:*)"),
        ("main:*)", ENTER),
        ("yes, once", b"s"),
    )
    assert answer == Approval(True, "session", rule="bash(git push origin main:*)")


@pytest.mark.parametrize(
    "text",
    [
        b"yes\ny\n",
        b"yarn install\r",
        b"y\ny\n",
        b"y\r" * 2000,
        pasted(b"y"),
        pasted(b"y\ry\r"),
        pasted(b"yes\n" * 2000),
    ],
)
def test_what_is_pasted_says_neither_yes_nor_no(terminal, text):
    place = terminal()
    steps = ((ASKED, text), ("that was text: nothing is answered", ESC), ("yes, once", b"n"))
    assert place.ask(*steps) == Approval(False)
    assert place.text == "before"


def test_what_is_pasted_can_be_sent_to_the_model(terminal):
    steps = ((ASKED, pasted(b"use\rthis\x1b[31m")), ("that was text", ENTER))
    assert terminal().ask(*steps) == Approval(False, reason="use\nthis")


@pytest.mark.parametrize("key", [b"\x1by", b"\x1b[99;5y", b"\x1b[I", b"\x1b[<0;1;1m", b"\x1b[200y"])
def test_sequences_that_end_in_an_answer_are_none(terminal, key):
    place = terminal()
    assert place.ask((ASKED, key), ("one key", b"n")) == Approval(False)


def test_what_was_typed_before_the_question_or_after_the_answer_counts_for_no_other(terminal):
    place = terminal()
    tty.setraw(place.slave)
    os.write(place.master, b"y")
    assert select.select([place.slave], [], [], LIMIT_S)[0]
    assert place.ask((ASKED, b"n")) == Approval(False)
    assert place.ask((ASKED, b"n" + b"\x1b[B" * 100)) == Approval(False)
    assert place.ask((ASKED, b"n")) == Approval(False)


def test_an_interrupt_clears_the_question_and_puts_the_terminal_back(terminal):
    place, main = terminal(), threading.main_thread().ident
    before = termios.tcgetattr(place.slave)
    with pytest.raises(KeyboardInterrupt):
        place.ask((ASKED, lambda: signal.pthread_kill(main, signal.SIGINT)))
    assert termios.tcgetattr(place.slave) == before
    assert place.text == "before"


def test_another_size_is_drawn_anew(terminal):
    place = terminal(80, 30)
    answer = place.ask(
        ("from now on", lambda: place.resize(60, 30)),
        ("in this workspace from\n     now on", lambda: place.resize(120, 30)),
        ("in this workspace from now on", b"y"),
    )
    assert answer == Approval(True)
    assert place.text == "before"


def test_no_control_byte_of_an_action_reaches_the_screen(terminal):
    place = terminal()
    action = CmdRunAction(command="ls\x1b[2J\x1b]0;x\x07\x9b31m", reason="\x1b[8mhidden")
    seen = []
    place.ask(("hidden", lambda: seen.append(place.text)), (ASKED, b"n"), action=action)
    assert "│ ls␛[2J␛]0;x␇<9B>31m" in seen[0]
    assert b"\x1b[2J" not in place.sent
    assert b"\x1b]0" not in place.sent


def test_where_the_risk_is_high_no_rule_is_offered(terminal):
    steps = ((ASKED, b"s"), ("y, n, t: one key", b"y"))
    place = terminal()
    assert place.ask(*steps, risk=Risk.HIGH) == Approval(True)
    assert b"the rule" not in place.sent


def test_a_line_stays_where_no_call_is_shown(terminal):
    place = terminal()
    place.ask((ASKED, b"s"), folds=True)
    place.read(lambda: "main" in place.text)
    assert place.text == "before\nallowed, session bash(git push:*): git push origin main"


def test_a_screen_that_is_too_small_is_asked_in_lines(terminal):
    place = terminal(80, 8)
    question = "what the model should know or do instead\n>"
    answer = None

    def ask():
        nonlocal answer
        answer = TerminalApprover(place.path, offers=PUSHES).ask(PUSH, "")

    asking = threading.Thread(target=ask)
    asking.start()
    place.read(lambda: question in place.text)
    os.write(place.master, b"y\n")
    asking.join(LIMIT_S)
    assert answer == Approval(True)


def test_colours_where_they_are_wanted(terminal, monkeypatch):
    place = terminal()
    place.ask((ASKED, b"n"), risk=Risk.HIGH)
    assert b"\x1b[31" not in place.sent
    monkeypatch.delenv("NO_COLOR")
    place.ask((ASKED, b"n"), risk=Risk.HIGH)
    assert b"\x1b[31;1m  risk: HIGH\x1b[0m" in place.sent
