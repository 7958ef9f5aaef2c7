"""No history, whatever happened in it, becomes a request that a strict provider refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.events import LLMMetrics, ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import (
    CondensationAction,
    MessageAction,
    RewindAction,
    SystemMessageAction,
    ToolCallAction,
)
from agentcli.events.observations import (
    ErrorObservation,
    SessionStartedObservation,
    SuccessObservation,
    ToolResultObservation,
)
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.wire_protocol import Endpoint
from agentcli.memory.memory import Memory
from agentcli.memory.projection import PrefixCheck, clip, masked_event, project
from agentcli.memory.window import Window
from agentcli.messages import Message, Request, Role, ToolSchema
from tests.server import anthropic_messages, chat_completions, responses
from tests.strategies import histories

TOOLS = (ToolSchema("bash", "Runs.", {"type": "object", "properties": {}}),)
PROTOCOLS = {
    "chat_completions": (ChatCompletions, chat_completions),
    "responses": (Responses, responses),
    "anthropic_messages": (AnthropicMessages, anthropic_messages),
}
HEADERS = {
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
    "x-api-key": "k",
    "authorization": "Bearer k",
}


def complaints(protocol, messages):
    """What a strict server has against a request of these messages."""
    provider_class, server = PROTOCOLS[protocol]
    provider = provider_class(Endpoint("here", "model", "http://127.0.0.1", "k"))
    body = provider._body(Request(messages, TOOLS))
    return server.validate(json.loads(body), HEADERS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=200)
@given(history=histories())
def test_any_history_is_a_legal_request(protocol, history):
    user = MessageAction(id=len(history), content="Go on.", source=Source.USER)
    assert complaints(protocol, project([*history, user])) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=100)
@given(history=histories(), tokens=st.integers(1, 400))
def test_any_window_of_any_history_is_a_legal_request(protocol, history, tokens):
    history.append(MessageAction(id=len(history), content="Go on.", source=Source.USER))
    memory = Memory(Window(lambda: tokens), tools=TOOLS)
    for _ in range(2):
        if condensation := memory.condense_overflow(history, tokens / 2):
            history.append(condensation.model_copy(update={"id": len(history)}))
        history.append(MessageAction(id=len(history), content="And?", source=Source.USER))
        assert complaints(protocol, memory.window(history)) == []


@settings(max_examples=200)
@given(history=histories(), at=st.integers(0, 30))
def test_following_event_by_event_gives_what_a_fresh_look_gives(history, at):
    memory = Memory(Window(lambda: 1000))
    memory.window(history[:at])
    followed = [(m.role, m.content, m.tool_calls) for m in memory.window(history)]
    assert followed == [(m.role, m.content, m.tool_calls) for m in project(history)]


@settings(max_examples=200)
@given(history=histories(), tokens=st.integers(1, 100))
def test_condensing_keeps_the_system_text_and_everything_the_user_said(history, tokens):
    memory = Memory(Window(lambda: tokens))
    condensation = memory.condense_overflow(history, tokens)
    if condensation is not None:
        history.append(condensation.model_copy(update={"id": len(history)}))
    shown = "\0".join(m.content for m in project(history) if m.role is not Role.TOOL)
    for event in history:
        if isinstance(event, MessageAction) and event.source is Source.USER:
            assert event.content in shown
    assert project(history)[0].role is Role.SYSTEM


def test_a_long_text_loses_its_middle_at_line_boundaries():
    lines = [f"line {number}\n" for number in range(100)]
    text = "".join(lines)
    short = clip(text, 300)
    head, _, tail = short.partition("[… ")
    left_out, _, tail = tail.partition(" characters are left out here …]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert 150 < len(head) <= 200
    assert 50 < len(tail) <= 100
    assert head.endswith("\n")
    assert tail.startswith("line ")
    assert int(left_out) == len(text) - len(head) - len(tail)
    between = clip("first\n" + "x" * 160_000 + "\nlast\n")
    assert between.startswith("first\nxxx")
    assert between.endswith("xxx\nlast\n")
    assert 29_900 < len(between) < 30_100
    assert clip("x" * 330, 300) == "x" * 330
    assert clip("x" * 331, 300).startswith("x" * 200 + "[… 31 characters")


def test_only_long_arguments_of_a_masked_call_give_way_to_a_note():
    arguments = {"path": "a.py", "exact": "x" * 200, "long": "y" * 201, "number": 7}
    call = ToolCallMetadata(
        function_name="write", tool_call_id="c", raw_arguments=json.dumps(arguments)
    )
    action = ToolCallAction(
        id=5, name="write", raw_arguments=call.raw_arguments, tool_call_metadata=call
    )
    note = "[201 characters are left out here; recall shows event 5.]"
    shown = json.loads(masked_event(action).tool_call_metadata.raw_arguments)
    assert shown == {**arguments, "long": note}
    for raw in ("{broken", '["list"]'):
        broken = action.model_copy(
            update={"tool_call_metadata": call.model_copy(update={"raw_arguments": raw})}
        )
        assert masked_event(broken).tool_call_metadata.raw_arguments == raw


def test_a_masked_message_keeps_head_and_tail_and_a_masked_result_names_its_event():
    short = MessageAction(id=3, content="short", source=Source.USER)
    assert masked_event(short) is short
    long = MessageAction(id=3, content="word\n" * 3_000, source=Source.USER)
    masked = masked_event(long).content
    assert len(masked) < 9_000
    assert masked.endswith("[The whole message is event 3: recall shows it.]")
    result = masked_event(SuccessObservation(id=4, cause=3, content="x" * 5_000))
    assert "recall shows event 4" in result.content
    assert len(result.content) < 300


def test_what_is_said_while_calls_run_comes_after_their_results():
    def call(number):
        metadata = ToolCallMetadata(
            function_name="bash", tool_call_id=f"c{number}", raw_arguments="{}"
        )
        part = ReplyPart(id="r", index=number - 1, total=2)
        return ToolCallAction(
            id=number, name="bash", raw_arguments="{}", tool_call_metadata=metadata, reply=part
        )

    events = [
        MessageAction(id=0, content="do it", source=Source.USER),
        call(1),
        call(2),
        SuccessObservation(id=3, cause=1, content="one"),
        MessageAction(id=4, content="faster", source=Source.USER),
        ErrorObservation(id=5, cause=2, content="no such file", error_id="e"),
        SuccessObservation(id=6, content="nobody asked for this"),
    ]
    messages = project(events)
    assert [m.content for m in messages] == ["do it", "", "one", "no such file", "faster"]
    assert [m.is_error for m in messages] == [False, False, False, True, False]


@pytest.mark.parametrize("error", [True, False])
def test_a_tool_that_says_it_failed_has_failed(error):
    metadata = ToolCallMetadata(function_name="t", tool_call_id="c", raw_arguments="{}")
    part = ReplyPart(id="r", index=0, total=1)
    call = ToolCallAction(
        id=0, name="t", raw_arguments="{}", tool_call_metadata=metadata, reply=part
    )
    result = ToolResultObservation(id=1, cause=0, name="t", content="so it went", error=error)
    assert project([call, result])[-1].is_error is error


TOOL = ToolSchema("look", "Looks.", {"type": "object"})
STORED = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
SYSTEM = Message.system_message("Be useful.")
TALK = [Message.user_message(f"message {number}") for number in range(40)]


def request(*messages: Message, tools=(TOOL,)) -> Request:
    return Request([SYSTEM, *messages], tools)


def session(*more, model="a/m", answered_by="a/m"):
    events = [
        SessionStartedObservation(
            version="1", session_id="s", model="a/m", sandbox="none", workspace="/", pid=1, host="h"
        ),
        SystemMessageAction(content="Be useful.", tools=(STORED,)),
        MessageAction(content="hi", source=Source.USER),
        MessageAction(content="ho", llm_metrics=LLMMetrics(model=answered_by)),
    ]
    events += [events[0].model_copy(update={"model": model, "resumed": True}), *more]
    return [event.model_copy(update={"id": number}) for number, event in enumerate(events)]


def changed(check: PrefixCheck, asked: Request, events=()) -> str | None:
    change = check.change(asked, events)
    return change and change.changed


def test_what_grows_at_its_end_is_the_same():
    check = PrefixCheck()
    for length in range(1, 40):
        assert changed(check, request(*TALK[:length])) is None


def test_a_list_that_the_next_request_grows_in_place_is_remembered_as_it_was():
    check, messages = PrefixCheck(), [SYSTEM, *TALK[:5]]
    assert changed(check, Request(messages, (TOOL,))) is None
    messages[3] = Message.user_message("other")
    messages.append(TALK[6])
    assert changed(check, Request(messages, (TOOL,))) == "message 4"


def test_the_first_message_that_differs_is_named_and_once():
    check = PrefixCheck()
    check.change(request(*TALK[:20]), [])
    other = [*TALK[:15], Message.user_message("message 15"), *TALK[16:20]]
    change = check.change(request(*other), [])
    assert change.changed == "message 17"
    assert change.content.startswith("message 17 of 21 differs from the request before")
    assert changed(check, request(*other, TALK[30])) is None


def test_a_message_less_is_a_change():
    check = PrefixCheck()
    check.change(request(*TALK[:3]), [])
    assert changed(check, request(*TALK[:2])) == "message 4"


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Request([Message.system_message("Be quick."), TALK[0]], (TOOL,)), "system"),
        (request(TALK[0], tools=()), "tools"),
        (request(TALK[0], tools=(ToolSchema("look", "Looks.", {"type": "object"}),)), None),
    ],
    ids=["system", "tools", "equal tools"],
)
def test_system_text_and_tools(other, named):
    check = PrefixCheck()
    check.change(request(TALK[0]), [])
    assert changed(check, other) == named


@pytest.mark.parametrize(
    "excuse", [CondensationAction(forgotten_event_ids=(3,)), RewindAction(to_event=2)]
)
def test_right_after_a_condensation_or_a_rewind_messages_may_differ(excuse):
    events = session()
    check = PrefixCheck()
    check.change(request(*TALK[:3]), events)
    events.append(excuse.model_copy(update={"id": len(events)}))
    assert changed(check, request(TALK[0], TALK[2]), events) is None
    assert changed(check, request(TALK[0]), events) == "message 3"


def test_a_process_that_goes_on_with_a_session_is_held_to_what_is_stored():
    asked = request(*TALK[:3])
    assert changed(PrefixCheck(), asked, session()) is None
    assert changed(PrefixCheck(), asked, session(model="b/m")) == "model"
    assert changed(PrefixCheck(), asked, session(answered_by="b/stood-in")) == "model"
    quick = Request([Message.system_message("Be quick."), TALK[0]], (TOOL,))
    assert changed(PrefixCheck(), quick, session()) == "system"
    assert changed(PrefixCheck(), request(TALK[0], tools=()), session()) == "tools"


def test_before_the_first_reply_nothing_can_have_changed():
    never_answered = [event for event in session(model="b/m") if event.llm_metrics is None]
    assert changed(PrefixCheck(), request(TALK[0], tools=()), never_answered) is None


def test_what_another_part_was_told_is_no_prefix_of_this_one():
    aside = MessageAction(content="x", llm_metrics=LLMMetrics(model="c/small", part="condenser"))
    assert changed(PrefixCheck(), request(TALK[0]), session(aside)) is None
