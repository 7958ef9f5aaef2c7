"""Whatever happened in a session and whichever condenser works on it: the request stays legal, what
the user said stays, and following event by event gives what a fresh look gives."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.errors import ConfigError, LLMError, LLMErrorKind, TurnInterrupted
from agentcli.events import Source
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    FileEditAction,
    FileReadAction,
    MessageAction,
    RewindAction,
    TaskTrackingAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    FileEditObservation,
    FileReadObservation,
    SuccessObservation,
    UserRejectObservation,
)
from agentcli.memory.condenser import CONDENSERS, Options, forget
from agentcli.memory.memory import Memory, choose_condenser
from agentcli.memory.projection import MAX_MASKED_MESSAGE_CHARS, project
from agentcli.memory.summary import Conversation, event_text, sections, with_known_ids
from agentcli.memory.window import Window
from agentcli.messages import FinishReason, Reply, Role, ToolCall, Usage
from agentcli.settings import MemorySettings
from tests.memory.long_histories import Log, record, session, stories
from tests.memory.test_projection import PROTOCOLS, complaints

WINDOW = 5_000
SUMMARY = "## Goal\n- fix the bug [1]\n\n## Done\n1. looked around [2-4], see [99999]"
CHOICES = [*sorted(CONDENSERS.all().keys() - {"pipeline"}), ["old_results", "llm_summary"]]


def reply(text="", calls=(), finish=FinishReason.STOP):
    usage = Usage(prompt_tokens=100, completion_tokens=10)
    return Reply(text, calls, finish, usage, "test/summariser", "id", cost_usd=0.25)


def good(request):
    """What a model answers that does what it is asked."""
    if request.tools:
        form = '{"user_context": "fix the bug [1]", "completed_tasks": ["looked [2]"]}'
        return reply("", (ToolCall("c", "summary", form),), FinishReason.TOOL_CALLS)
    if "JSON list" in request.messages[0].content:
        return reply("[7, 4, 9]")
    return reply(SUMMARY)


def failing(request):
    raise LLMError(LLMErrorKind.SERVER_ERROR, "the server is on fire")


BAD = {
    "error": failing,
    "empty": lambda request: reply("  "),
    "refusal": lambda request: reply("No.", finish=FinishReason.REFUSAL),
    "cut": lambda request: reply("## Goal\n- fix", finish=FinishReason.LENGTH),
    "calls": lambda request: reply("", (ToolCall("c", "bash", "{"),), FinishReason.TOOL_CALLS),
    "too long": lambda request: reply("## Goal\n" + "- and more [2]\n" * 20_000),
}
ANSWERS = {"good": good, **BAD}


def memory_with(choice, ask=good, window=WINDOW, **options):
    """A memory with a small window."""
    settings = MemorySettings(
        max_size=30, max_events=30, attention_window=12, max_event_chars=10_000, **options
    )
    made = Options(settings, lambda request, spent: ask(request))
    return Memory(Window(lambda: window), condenser=choose_condenser(choice, made))


def think(memory, log):
    """What the loop does before it asks the model; returns the request's messages."""
    if action := memory.condense(log):
        log.add(action)
    return list(memory.window(log))


def shape(messages):
    return [(m.role, m.content, m.tool_calls, m.tool_call_id, m.image_urls) for m in messages]


def condensations(log):
    return [event for event in log if isinstance(event, CondensationAction)]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@settings(max_examples=40)
@given(story=stories(), answer=st.sampled_from(sorted(ANSWERS)))
def test_every_window_is_legal_and_keeps_what_the_user_said(choice, story, answer):
    log, memory = Log(), memory_with(choice, ANSWERS[answer])
    for number, happenings in enumerate(story):
        for happening in happenings:
            record(log, happening)
        log.say(f"Question {number}?")
        messages = think(memory, log)
        if number % 4 == 3 or number == len(story) - 1:
            for protocol in PROTOCOLS:
                assert complaints(protocol, messages) == []
        shown = "\0".join(m.content for m in messages if m.role is Role.USER)
        for event in log:
            if isinstance(event, MessageAction) and event.source is Source.USER:
                assert event.content in shown or f"event {event.id}" in shown
        assert messages[0].role is Role.SYSTEM
    assert shape(memory.window(log)) == shape(project(log))
    assert shape(memory_with(choice).window(log)) == shape(project(log))
    for action in condensations(log):
        assert {*action.forgotten_ids(), *action.masked_event_ids} <= set(range(action.id))
        assert action.numbers["tokens_after"] <= action.numbers["tokens_before"]


@settings(max_examples=60)
@given(story=stories(), back=st.integers(0, 60))
def test_after_going_back_the_window_is_what_it_would_have_been(story, back):
    log, memory = Log(), memory_with("default")
    for happenings in story:
        for happening in happenings:
            record(log, happening)
        think(memory, log)
    log.add(RewindAction(to_event=min(back, len(log) - 1)))
    log.say("Again, please.")
    assert shape(memory.window(log)) == shape(project(log))


def work(log, steps, chars=400):
    """Steps that each leave a result of `chars` characters that is unlike any other."""
    for number in range(steps):
        log.run(f"step {log.replies}", f"{number} {log.replies} " + "x" * chars)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_the_newest_two_steps_and_the_prefix_in_between_hold(choice):
    log, memory = session(), memory_with(choice)
    before, made, kept = [], 0, 0
    for _ in range(120):
        work(log, 1)
        messages = think(memory, log)
        if len(condensations(log)) == made:
            same = [old is new for old, new in zip(before, messages, strict=False)]
            assert all(same)
            kept += 1
        made, before = len(condensations(log)), messages
        results = [m.content for m in messages if m.role is Role.TOOL][-2:]
        assert results == [e.content for e in log if e.cause is not None][-2:]
        assert memory.tokens(log) <= WINDOW
    assert kept >= 3 * made, f"{made} condensations in 120 steps are no strides"


def test_a_masked_result_names_its_event_and_how_to_get_it_back():
    log, memory = session(), memory_with("observation_masking")
    work(log, 12)
    messages = think(memory, log)
    (action,) = condensations(log)
    masked = action.masked_event_ids[0]
    text = next(m.content for m in messages if m.role is Role.TOOL)
    assert f"recall shows event {masked}" in text
    assert len(text) < 200
    assert action.summary is None
    assert "x" * 400 in log[masked].content


def test_refused_calls_and_stale_results_go_first():
    log, memory = session(), memory_with("old_results", window=6_000)
    script = json.dumps({"command": "rm -rf / #" + "y" * 3_000, "timeout": 5})
    (refused,) = log.step(CmdRunAction(command=script))
    log.add(UserRejectObservation(content="Not allowed: it reaches out.", cause=refused.id))
    (look,) = log.step(FileReadAction(path="a.py"))
    read = FileReadObservation(path="a.py", content="old\n" * 300, digest="1", cause=look.id)
    stale = log.add(read)
    longer = log.run("cat b", "other " * 400)
    (change,) = log.step(FileEditAction(path="a.py", old_str="old", new_str="new"))
    log.add(FileEditObservation(path="a.py", content="Edited a.py:", cause=change.id))
    (look,) = log.step(FileReadAction(path="a.py"))
    fresh = log.add(read.model_copy(update={"content": "new\n" * 300, "cause": look.id}))
    work(log, 9, 1_200)
    memory.settings = memory.settings.model_copy(update={"low_water": 0.69})
    messages = think(memory, log)
    (action,) = condensations(log)
    assert set(action.masked_event_ids) == {refused.id, stale.id}
    assert not {longer.id, fresh.id} & set(action.masked_event_ids)
    call = next(m.tool_calls[0] for m in messages if m.tool_calls)
    note = f"[3,010 characters are left out here; recall shows event {refused.id}.]"
    assert json.loads(call.arguments) == {"command": note, "timeout": 5}
    assert all(not complaints(protocol, messages) for protocol in PROTOCOLS)


def test_repeated_results_go_before_old_ones():
    log, memory = session(), memory_with("old_results", window=4_000)
    first = log.run("cat a", "same " * 300)
    longer = log.run("cat b", "other " * 400)
    again = log.run("cat a", "same " * 300)
    work(log, 7, 850)
    memory.settings = memory.settings.model_copy(update={"low_water": 0.7})
    think(memory, log)
    (action,) = condensations(log)
    assert action.masked_event_ids == (first.id,)
    memory.settings = memory.settings.model_copy(update={"low_water": 0.5})
    work(log, 6, 600)
    think(memory, log)
    masked = condensations(log)[1].masked_event_ids
    assert {longer.id, again.id} <= set(masked), "then old ones, the longest first"


def test_the_summary_says_what_counts_and_names_only_events_there_are():
    log, memory = session("Fix the bug."), memory_with("llm_summary")
    work(log, 10)
    log.add(AgentStateChangedObservation(agent_state="finished"))
    log.say("Now write a test.")
    work(log, 10)
    action = memory.compact(log, "the test")
    text = action.summary
    assert "for reference and asks for nothing" in text
    assert re.search(r'\[1\] dealt with: "Fix the bug\."', text)
    assert "what you work on, unless a newer message stands below" in text
    assert "[2-4]" in text
    assert "99999" not in text
    assert action.llm_metrics.part == "condenser"
    assert action.llm_metrics.cost_usd == 0.25
    assert log[1].id not in action.forgotten_event_ids


def test_the_summary_stands_after_what_it_is_older_than():
    """Else messages of long ago would look like the newest."""
    log, memory = session("first"), memory_with("llm_summary")
    work(log, 6)
    log.say("second")
    work(log, 6)
    log.add(memory.compact(log))
    roles = [m.content[:8] for m in memory.window(log) if m.role is Role.USER]
    assert roles == ["first", "second", "[Summary"]


def test_a_summary_is_brought_up_to_date_and_not_made_anew():
    asked = []

    def ask(request):
        asked.append(request.messages[1].content)
        return reply(SUMMARY.replace("looked around", f"round {len(asked)}"))

    log, memory = session(), memory_with("llm_summary", ask)
    work(log, 8)
    log.add(memory.compact(log))
    work(log, 8)
    log.add(memory.compact(log))
    assert "The summary so far" not in asked[0]
    assert "The summary so far:\n## Goal" in asked[1]
    assert "round 1" in asked[1]
    assert "what you work on" not in asked[1]
    assert "step 3" not in asked[1], "what is summed up already is not read again"
    text = memory.window(log)[2].content
    assert "round 2" in text
    assert "round 1" not in text
    assert "events 2 to" in text, "the whole span stays named"


def test_open_tasks_are_restated_whoever_sums_up():
    tasks = ({"title": "write docs", "status": "todo"}, {"title": "old", "status": "done"})
    for choice in ("window", "llm_summary", "recent", "llm_attention"):
        log, memory = session(), memory_with(choice)
        (plan,) = log.step(TaskTrackingAction(command="plan", task_list=tasks))
        log.add(SuccessObservation(cause=plan.id, content="2 tasks"))
        for _ in range(2):
            work(log, 8)
            action = memory.compact(log)
            assert "- write docs (todo)" in action.summary
            assert "- old" not in action.summary
            log.add(action)


def plan(log, *tasks):
    (kept,) = log.step(TaskTrackingAction(command="plan", task_list=tasks))
    log.add(SuccessObservation(cause=kept.id, content="kept"))


def test_a_task_list_of_an_earlier_turn_is_not_taken_for_work_to_do():
    log, memory = session("Fix the bug."), memory_with("llm_summary")
    plan(log, {"title": "fix it", "status": "todo"})
    work(log, 8)
    assert "some may be done" not in memory.compact(log).summary
    log.add(AgentStateChangedObservation(agent_state="finished"))
    log.say("Now the docs.")
    work(log, 8)
    assert "some may be done:\n- fix it (todo)" in memory.compact(log).summary


def test_what_is_said_at_work_adds_to_the_task_and_does_not_replace_it():
    log, memory = session("Fix the bug."), memory_with("llm_summary")
    work(log, 6)
    log.add(MessageAction(content="Use tabs.", source=Source.USER, delivery="steer"))
    work(log, 6)
    text = memory.compact(log).summary
    assert re.search(r'\[1\] what you work on.*: "Fix the bug\."', text)
    assert 'still holds: "Use tabs."' in text
    assert text.endswith("[End of the summary.]")


def test_a_line_that_announces_the_summary_is_no_part_of_it():
    log = session("Fix the bug.")
    memory = memory_with("llm_summary", lambda request: reply(f"Here it is:\n\n{SUMMARY}"))
    work(log, 8)
    assert "Here it is" not in memory.compact(log).summary
    assert sections("Mind: x\n## Goal\n- a") == {"Critical context": ["Mind: x"], "Goal": ["- a"]}


def test_of_a_list_of_events_the_unknown_ones_go():
    told_of = with_known_ids("a [2, 99] b [99] c [3-5, 98-99]", range(10))
    assert told_of == "a [2] b c [3-5]"


def test_of_a_file_that_was_read_the_summariser_sees_a_part():
    event = FileReadObservation(id=3, path="a.py", content="line\n" * 5_000)
    assert len(event_text(event, 10_000)) < 3_000


@pytest.mark.parametrize("how", sorted(BAD))
@pytest.mark.parametrize("choice", ["llm_summary", "structured_summary"])
def test_without_a_usable_summary_one_is_made_of_the_events(choice, how):
    log, memory = session(), memory_with(choice, BAD[how])
    log.run("make test", "E" * 3000, exit_code=2)
    work(log, 14, 2000)
    action = memory.compact(log)
    assert action.summariser_error
    assert len(action.summary) <= 8_000
    assert re.search(r"\$ make test → exit 2: E+… \[2\]", action.summary)
    assert "Fix the bug. [1]" in action.summary
    paid = how != "error"
    assert (action.llm_metrics is not None) == paid


def test_a_summariser_that_failed_is_left_alone_for_a_while():
    asked = []

    def ask(request):
        asked.append(request)
        raise LLMError(LLMErrorKind.SERVER_ERROR, "busy")

    log, memory = session(), memory_with("llm_summary", ask, cooldown_s=600.0)
    for pause, calls in ((0, 1), (500, 1), (50, 1), (700, 2)):
        log.add(MessageAction(content="hm", source=Source.ENVIRONMENT), pause)
        work(log, 12)
        log.add(memory.compact(log))
        assert len(asked) == calls
    again = memory_with("llm_summary", ask)
    work(log, 12)
    again.compact(log)
    assert len(asked) == 2, "a process that goes on with the session knows of it"


def test_attention_keeps_what_the_model_wants():
    log = session()
    wanted = log.run("cat key.txt", "the key is blue " * 20)
    memory = memory_with("llm_attention", lambda request: reply(f"[{wanted.id}]"))
    work(log, 40)
    action = memory.condense(log)
    assert "a model chose what stays" in action.reason
    assert wanted.id not in action.forgotten_event_ids
    assert log[wanted.id + 1].id in action.forgotten_event_ids
    log.add(action)
    assert any("the key is blue" in m.content for m in memory.window(log))


def test_the_model_may_ask_for_it():
    log, memory = session(), memory_with("default")
    work(log, 6)
    assert memory.condense(log) is None
    (request,) = log.step(CondensationRequestAction(focus="the parser"))
    log.add(SuccessObservation(cause=request.id, content="before your next step"))
    action = memory.condense(log)
    assert action.forgotten_event_ids
    log.add(action)
    assert memory.condense(log) is None, "once asked, once done"


def test_after_two_passes_that_save_next_to_nothing_there_is_no_third():
    log, memory = session(), memory_with("window", window=8_000)
    for _ in range(4):
        log.say("go " * 2_000)
    reasons = []
    for _ in range(7):
        work(log, 2, 300)
        if action := memory.condense(log):
            reasons.append(log.add(action).reason)
    assert len(reasons) == 2
    assert "can't be made shorter" in reasons[1]
    log.say("go on")
    work(log, 2)
    assert memory.condense(log) is not None


def test_a_request_that_did_not_fit_is_made_shorter_at_once_and_the_window_is_known():
    log, memory = session(), memory_with("default", failing, window=100_000)
    work(log, 30, 2_000)
    before = memory.tokens(log)
    log.add(memory.condense_overflow(log, 1_000))
    assert memory.tokens(log) < before * 0.6
    work(log, 14, 2_000)
    assert memory.condense(log) is not None, "the window turned out to be smaller than catalogued"


def test_the_longest_results_go_when_even_the_newest_steps_do_not_fit():
    log, memory = session(), memory_with("default")
    for _ in range(2):
        calls = log.step(*[CmdRunAction(command="cat big")] * 3)
        for call in calls:
            log.add(SuccessObservation(cause=call.id, content=f"{call.id} " + "z" * 20_000))
    before = memory.tokens(log)
    log.add(memory.condense_overflow(log, 1_000))
    assert memory.tokens(log) < before * 0.6
    for protocol in PROTOCOLS:
        assert complaints(protocol, memory.window(log)) == []


def test_without_truncation_what_does_not_fit_stays_an_error():
    log = session()
    work(log, 30)
    memory = Memory(Window(lambda: WINDOW), MemorySettings(enable_history_truncation=False))
    assert memory.condense_overflow(log, 1_000) is None


def test_a_long_message_of_the_user_is_referenced_once_it_is_old():
    log, memory = session(), memory_with("default", window=20_000)
    work(log, 4)
    long = log.say("line of a paste\n" * 1_500)
    work(log, 60)
    log.add(memory.compact(log))
    text = next(m.content for m in memory.window(log) if "line of a paste" in m.content)
    assert len(text) < MAX_MASKED_MESSAGE_CHARS + 300
    assert f"The whole message is event {long.id}" in text


@pytest.mark.parametrize(
    ("choice", "options", "told"),
    [
        ("llm_sumary", {}, "did you mean llm_summary"),
        ("pipeline", {}, "llm_summary"),
        ([], {}, "noop"),
        ("llm_summary", {"keep_first": 50, "max_size": 100}, "less than half of max_size"),
        ("recent", {"keep_first": 50, "max_events": 100}, "less than half of max_events"),
    ],
)
def test_what_can_not_be_is_a_config_error(choice, options, told):
    with pytest.raises(ConfigError) as raised:
        choose_condenser(choice, Options(MemorySettings(**options)))
    assert told in raised.value.hint


def test_going_back_before_a_condensation_takes_it_back():
    log, memory = session(), memory_with(["observation_masking", "window"])
    work(log, 5)
    early = log[-1]
    tasks = ({"title": "write docs", "status": "todo"},)
    (plan,) = log.step(TaskTrackingAction(command="plan", task_list=tasks))
    log.add(SuccessObservation(cause=plan.id, content="1 task"))
    work(log, 12)
    think(memory, log)
    assert early.id in condensations(log)[0].masked_event_ids
    log.add(RewindAction(to_event=early.id))
    assert early.content in [message.content for message in memory.window(log)]
    work(log, 4)
    assert "write docs" not in memory.compact(log).summary


class AsksTwice:
    """Has two models help, as a pipeline may."""

    def __init__(self, second=good):
        self.spent = []
        self.second = second

    def condense(self, view):
        for answer in (good, self.second):

            def ask(request, spent, answer=answer):
                self.spent.append(spent)
                return answer(request)

            Conversation(Options(MemorySettings(), ask), view).ask("system", "text")
        return forget(view, view.old_steps, "summed up", "asked")


def interrupted(request):
    raise TurnInterrupted("interrupted", 130)


def test_all_that_models_were_paid_counts_at_once_and_is_recorded():
    condenser, log = AsksTwice(), session()
    memory = Memory(Window(lambda: WINDOW), condenser=condenser)
    work(log, 8)
    assert memory.compact(log).llm_metrics.cost_usd == 0.5
    assert condenser.spent == [0, 0.25], "what the second may cost is less by the first"


@pytest.mark.parametrize("how", ["compact", "condense"])
def test_what_was_paid_before_an_interrupt_is_recorded(how):
    log, kept = session(), []
    work(log, 8)
    log.add(CondensationRequestAction(focus="x"))
    memory = Memory(Window(lambda: WINDOW), condenser=AsksTwice(interrupted), record=kept.append)
    with pytest.raises(TurnInterrupted):
        getattr(memory, how)(log)
    assert [action.llm_metrics.cost_usd for action in kept] == [0.25]
    assert list(kept[0].forgotten_ids()) == []


def test_nobody_is_paid_for_what_is_put_off_and_it_stays_asked_for():
    condenser, log = AsksTwice(), session()
    memory = Memory(Window(lambda: WINDOW), condenser=condenser)
    work(log, 8)
    log.add(CondensationRequestAction(focus="x"))
    for _ in range(3):
        assert memory.condense(log, lambda: False) is None
    assert condenser.spent == []
    assert memory.condense(log, lambda: True) is not None
    plain = Memory(Window(lambda: WINDOW))
    assert plain.condense(log, lambda: False) is None
    assert plain.condense(log, lambda: True) is not None
