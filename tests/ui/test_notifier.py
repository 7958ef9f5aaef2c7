"""Bell, notification and title for a person who looks elsewhere."""

from __future__ import annotations

import os
import pty
import re
import tty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.events import Source
from agentcli.events.actions import MessageAction, RenameAction
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.ui.notifier import NotifierSettings, TerminalNotifier


class Watched:
    """A session on a terminal of its own, whose clock goes on when it is told to."""

    def __init__(self, means="bell", term="xterm-256color", label="", **more):
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        self._stream = os.fdopen(slave, "w", encoding="utf-8")
        self._now = 0.0
        settings = NotifierSettings(means, **{"title": False, **more})
        environ = {"TERM": term} if term != "tmux" else {"TERM": "tmux-256color", "TMUX": "/tmp/x"}
        self.notifier = TerminalNotifier(
            self._stream, settings, environ, label=label, clock=lambda: self._now
        )

    def say(self, text):
        self.notifier.on_event(MessageAction(content=text, source=Source.USER))
        return self.become("running")

    def become(self, state, after_s=0.0, reason=""):
        """What is written when the session comes to this state, so long after the last one."""
        self._now += after_s
        self.notifier.on_event(AgentStateChangedObservation(agent_state=state, reason=reason))
        return self.written()

    def written(self):
        os.write(self._stream.fileno(), b"|")
        data = b""
        while not data.endswith(b"|"):
            data += os.read(self._master, 65_536)
        return data[:-1].decode()

    def close(self):
        self.notifier.close()
        told = self.written()
        self._stream.close()
        os.close(self._master)
        return told


@pytest.fixture
def watched():
    made = []

    def make(*args, **options):
        made.append(Watched(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("state", "after_s", "reason", "rings"),
    [
        ("finished", 60, "", True),
        ("finished", 9, "", False),
        ("error", 60, "", True),
        ("paused", 60, "max_turns", True),
        ("paused", 60, "interrupted", False),
        ("awaiting_user_input", 60, "", True),
        ("awaiting_user_confirmation", 4, "", True),
        ("awaiting_user_confirmation", 1, "", False),
    ],
)
def test_it_rings_for_who_may_have_looked_away(watched, state, after_s, reason, rings):
    session = watched()
    assert session.say("fix it") == ""
    assert session.become(state, after_s, reason) == ("\a" if rings else "")


def test_who_has_just_answered_is_there(watched):
    session = watched()
    session.say("fix it")
    assert session.become("awaiting_user_confirmation", 100) == "\a"
    session.become("user_confirmed", 50)
    session.become("running")
    assert session.become("awaiting_user_confirmation", 1) == ""
    session.become("user_confirmed")
    session.become("running", 8)
    assert session.become("finished", 1) == ""


def test_the_desktop_is_told_what_became_of_which_task(watched):
    session = watched("osc9")
    session.say("fix the test\nand the docs")
    assert session.become("finished", 60) == "\x1b]9;agent done: fix the test\a"
    session.say("more")
    assert session.become("error", 60) == "\x1b]9;agent failed: fix the test\a"
    through_tmux = watched("osc9", term="tmux", label="docs")
    through_tmux.say("x")
    asked = through_tmux.become("awaiting_user_confirmation", 60)
    assert asked == "\x1bPtmux;\x1b\x1b]9;agent asks: docs\a\x1b\\"


def test_the_title_says_where_things_stand_and_goes_back(watched):
    session = watched("off", title=True)
    shown = session.say("fix the test")
    assert shown == "\x1b[22;0t\x1b]0;fix the test\a\x1b]0;… fix the test\a"
    assert session.become("awaiting_user_confirmation", 60) == "\x1b]0;? fix the test\a"
    session.notifier.on_event(RenameAction(name="parser"))
    assert session.written() == "\x1b]0;? parser\a"
    assert session.become("finished", 60) == "\x1b]0;parser\a"
    session.notifier.close()
    assert session.written() == "\x1b[23;0t"


@pytest.mark.parametrize("term", ["dumb", "linux", ""])
def test_terminals_without_a_title_get_none(watched, term):
    session = watched("off", term, title=True)
    assert session.say("x") == ""


def test_a_pipe_gets_nothing(tmp_path):
    with (tmp_path / "log").open("w+") as log:
        notifier = TerminalNotifier(log, NotifierSettings(after_s=0), {"TERM": "xterm"})
        notifier.on_event(MessageAction(content="x", source=Source.USER))
        notifier.on_event(AgentStateChangedObservation(agent_state="finished"))
        notifier.close()
        assert log.tell() == 0


nasty = st.text(st.characters() | st.sampled_from("\x1b\a\x9b\x9c\r\n;\u202e"), min_size=1)


@given(nasty)
def test_a_title_holds_nothing_that_a_terminal_acts_on(text):
    session = Watched("osc9", title=True, after_s=0)
    told = session.say(text) + session.become("finished", 1)
    session.close()
    inside = re.findall(r"\x1b\](?:0|9);([^\x1b\a]*)\a", told)
    assert len(inside) == 4
    rest = re.sub(r"\x1b\[22;0t|\x1b\](?:0|9);[^\x1b\a]*\a", "", told)
    assert rest == ""
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", title) for title in inside)
