"""What a person sees of a session before it goes on."""

import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.events import ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import (
    AgentFinishAction,
    CmdRunAction,
    FileReadAction,
    MessageAction,
    RewindAction,
    TaskTrackingAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CmdMetadata,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    FileReadObservation,
    ReplyDiscardedObservation,
    SessionStartedObservation,
    TaskTrackingObservation,
)
from agentcli.ui.resume_summary import how_it_ended, one_line, show_summary, summarise
from agentcli.ui.summary import ago
from tests import strategies
from tests.ui.conftest import FakeTerminal

START = datetime(2026, 1, 1, tzinfo=UTC)
KILLED = ErrorObservation(error_id="interrupted", content="agent was killed while this was running")
NOT_STARTED = ErrorObservation(error_id="interrupted", content="Not started: agent was killed")


@dataclass(frozen=True)
class Facts:
    session_id: str = "20260101-000000-aaaa"
    agent_state: str = "paused"
    exit_code: int | None = None
    iteration: int = 2
    cost_usd: float | None = 0.42
    name: str | None = None
    title: str = "fix the failing test"


def user(text, **more):
    return MessageAction(content=text, source=Source.USER, **more)


def said(text, reply="r", total=1):
    return MessageAction(content=text, reply=ReplyPart(id=reply, index=0, total=total))


def called(action, reply="r"):
    call = ToolCallMetadata(function_name=TOOLS[action.kind], tool_call_id="c", raw_arguments="{}")
    part = ReplyPart(id=reply, index=0, total=1)
    return action.model_copy(update={"tool_call_metadata": call, "reply": part})


TOOLS = {"run": "bash", "read": "read", "task_tracking": "todo", "finish": "finish"}


def bash(command, **more):
    return called(CmdRunAction(command=command), **more)


def ran(content="", code=0):
    return CmdOutputObservation(
        content=content, metadata=CmdMetadata(exit_code=code, duration_s=0.5)
    )


def state(name, reason="", content=""):
    return AgentStateChangedObservation(agent_state=name, reason=reason, content=content)


def log(*events):
    """Events a minute apart, each observation without a cause being the answer to the oldest call
    that is open."""
    numbered, open_calls = [], []
    for number, event in enumerate(events):
        stamp = {"id": number, "timestamp": START + timedelta(minutes=number)}
        if event.tool_call_metadata is not None:
            open_calls.append(number)
        elif isinstance(event, ANSWERS) and open_calls:
            stamp["cause"] = open_calls.pop(0)
        elif isinstance(event, DecisionObservation):
            stamp["cause"] = open_calls[0]
        numbered.append(event.model_copy(update=stamp))
    return numbered


ANSWERS = (CmdOutputObservation, FileReadObservation, ErrorObservation, TaskTrackingObservation)


def shown(events, facts=None, hours=2, columns=80):
    """As it looks so many hours after the start."""
    terminal = FakeTerminal(columns)
    show_summary(
        summarise(events, facts or Facts()), terminal, START + timedelta(hours=hours, minutes=5)
    )
    return terminal.text


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_session_that_was_killed_in_a_command():
    tasks = ({"title": "look", "status": "done"}, {"title": "fix it", "status": "in_progress"})
    events = log(
        user("fix the failing test\nand then the docs\nand more"),
        state("running"),
        called(TaskTrackingAction(command="plan", task_list=tasks)),
        TaskTrackingObservation(),
        called(FileReadAction(path="tally.py")),
        FileReadObservation(path="tally.py", lines_shown=(1, 17), lines_total=17),
        bash("python3 -m unittest"),
        ran("1 failed", 1),
        said("The **pattern** drops apostrophes.\n\n- so `don't` is two words\n", "r2", 3),
        bash("make test", reply="r2"),
        bash("make docs", reply="r2"),
        KILLED,
        NOT_STARTED,
        state("paused", "killed", "the process was killed"),
        SessionStartedObservation(
            version="0",
            session_id="x",
            model="m",
            sandbox="none",
            workspace="/w",
            pid=1,
            host="h",
            resumed=True,
        ),
    )
    assert shown(events) == dedent("""\
        interrupted 1 h ago while running: $ make test
        20260101-000000-aaaa · 2 steps · $0.42 · todo 1/2 done, now: fix it

        > fix the failing test
          and then the docs … +1 line

        The pattern drops apostrophes.
        * so don't is two words

        • bash    $ python3 -m unittest · exit 1 · 0.5 s
        ✗ bash    $ make test · effect unknown
        ✗ bash    $ make docs · not started""").replace("* so", " • so")


def test_the_time_is_that_of_the_last_thing_done_not_of_the_account_of_the_kill():
    events = log(user("x"), bash("make"), KILLED, state("paused", "killed"))
    assert summarise(events, Facts()).when == START + timedelta(minutes=1)
    torn = ReplyDiscardedObservation(reply_id="r")
    events = log(user("x"), said("half", total=2), torn, state("paused", "killed"))
    stands = summarise(events, Facts())
    assert (stands.when, stands.words) == (START + timedelta(minutes=1), "")


def test_a_log_that_nobody_has_accounted_for_yet():
    events = log(user("x"), state("running"), bash("make"))
    stands = summarise(events, Facts(agent_state="running"))
    assert (stands.ended, stands.reason) == ("interrupted", "while running: $ make")
    assert stands.when == START + timedelta(minutes=2)


def test_an_interrupt_by_the_user_names_the_command_it_stopped():
    events = log(
        user("x"),
        bash("make"),
        ran("so far\n[interrupted by the user]", 130),
        state("paused", "interrupted"),
    )
    assert "while running: $ make\n" in shown(events, Facts(exit_code=130))
    assert "$ make · stopped by you" in shown(events)


def test_an_interrupt_of_the_model_names_no_command():
    events = log(user("x"), bash("make"), ran(), state("paused", "interrupted"))
    assert summarise(events, Facts()).reason == ""


def test_a_command_that_was_cut_short_before_the_newest_reply_is_old_news():
    events = log(
        user("x"),
        bash("make"),
        KILLED,
        state("paused", "killed"),
        state("running"),
        said("I see", "r2"),
        state("paused", "interrupted"),
    )
    assert summarise(events, Facts()).reason == ""


def test_a_question_that_was_left_open():
    asked = DecisionObservation(decision="ask", by="policy")
    events = log(user("x"), bash("rm -r build"), asked, state("paused", "killed"))
    assert "interrupted 2 h ago before you allowed: $ rm -r build" in shown(events)


@pytest.mark.parametrize(
    ("agent_state", "exit_code", "words"),
    [
        ("finished", 0, "finished"),
        ("finished", 1, "failed"),
        ("paused", 130, "interrupted"),
        ("paused", 6, "limit reached"),
        ("awaiting_user_input", 0, "waits for you"),
        ("error", 4, "failed"),
        ("running", None, "interrupted"),
    ],
)
def test_states_in_words(agent_state, exit_code, words):
    assert how_it_ended(agent_state, exit_code) == words


def test_a_failure_says_why_once():
    events = log(user("x"), state("error", "auth", "the key is refused\nmore"))
    assert "failed 2 h ago: the key is refused\n" in shown(events, Facts(agent_state="error"))
    finish = called(AgentFinishAction(status="failure", final_thought="It can't be done."))
    events = log(user("x"), finish, state("finished", "failure", "It can't be done."))
    text = shown(events, Facts(agent_state="finished", exit_code=1))
    assert text.count("It can't be done.") == 1
    assert "finish" not in text


def test_a_named_session_says_its_name():
    events = log(user("x"))
    assert shown(events, Facts(name="tidy")).startswith("tidy\n")


def test_messages_that_the_agent_has_not_seen_are_waiting():
    events = log(
        user("first"),
        said("working"),
        user("more", delivery="steer"),
        said("seen", "r2"),
        user("also the docs", delivery="queue"),
        user("and tests", delivery="queue"),
    )
    stands = summarise(events, Facts())
    assert (stands.said, stands.words) == ("more", "seen")
    assert stands.queued == ("also the docs", "and tests")
    assert shown(events).endswith("2 messages of yours wait: also the docs")


def test_a_new_message_begins_a_new_turn():
    events = log(user("first"), bash("ls"), ran(), said("done"), user("second"))
    stands = summarise(events, Facts())
    assert (stands.said, stands.words, stands.calls) == ("second", "", ())


def test_what_was_rewound_is_not_shown():
    events = log(
        user("first"),
        said("kept"),
        user("a detour"),
        said("lost", "r2"),
        RewindAction(to_event=1, source=Source.USER),
    )
    stands = summarise(events, Facts())
    assert (stands.said, stands.words) == ("first", "kept")


def test_elsewhere_it_is_one_line():
    events = log(user("fix the failing test\nplease"), state("paused", "interrupted"))
    line = "resuming 20260101-000000-aaaa (interrupted, 2 steps, $0.42): fix the failing test"
    assert one_line(summarise(events, Facts())) == line


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (3_600, "1 h ago"),
        (100_000, "27 h ago"),
        (172_800, "2 days ago"),
        (1_500_000, "2 weeks ago"),
    ],
)
def test_ages_in_words(seconds, words):
    assert ago(seconds) == words


def test_long_texts_keep_to_their_rows():
    long = "\n".join(f"- line {n} {'x ' * 100}" for n in range(50))
    tasks = ({"title": long, "status": "in_progress"},)
    events = log(
        user(long),
        called(TaskTrackingAction(command="plan", task_list=tasks)),
        said(long),
        *[bash(long) for _ in range(5)],
        user(long, delivery="queue"),
    )
    facts = Facts(name="n" * 60, title=long)
    for columns in (80, 120):
        rows = shown(events, facts, columns=columns).split("\n")
        assert len(rows) <= 14
        assert max(map(len, rows)) < columns


nasty = st.text(st.characters() | st.sampled_from("\x1b\r\n\t\x9b"), max_size=200)


@pytest.mark.campaign
@settings(max_examples=150)
@given(
    st.lists(strategies.events, max_size=12) | strategies.histories(),
    st.builds(Facts, name=st.none() | nasty, title=nasty),
    nasty,
)
def test_any_log_fits_and_sends_the_terminal_nothing_to_act_on(events, facts, text):
    """The terminal of these tests refuses what is neither text nor colour."""
    numbered = [event.model_copy(update={"id": at}) for at, event in enumerate(events)]
    stands = summarise([*numbered, user(text).model_copy(update={"id": len(events)})], facts)
    terminal = FakeTerminal()
    show_summary(stands, terminal, START)
    assert len(terminal.text.split("\n")) <= 14
    pipe = io.StringIO()
    show_summary(stands, pipe, START)
    assert "\x1b" not in pipe.getvalue() + one_line(stands)
    assert "\n" not in one_line(stands)
