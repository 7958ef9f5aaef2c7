"""What of a request is not what it was in the one before."""

from __future__ import annotations

import pytest

from agentcli.events import LLMMetrics, Source
from agentcli.events.actions import (
    CondensationAction,
    MessageAction,
    RewindAction,
    SystemMessageAction,
)
from agentcli.events.observations import SessionStartedObservation
from agentcli.memory.prefix import PrefixCheck
from agentcli.messages import Message, Request, ToolSchema

TOOL = ToolSchema("look", "Looks.", {"type": "object"})
STORED = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
SYSTEM = Message.system_message("Be useful.")
TALK = [Message.user_message(f"message {number}") for number in range(40)]


def request(*messages: Message, tools=(TOOL,)) -> Request:
    return Request([SYSTEM, *messages], tools)


def session(*more, model="a/m", answered_by="a/m"):
    events = [
        SessionStartedObservation(
            version="1",
            session_id="s",
            model="a/m",
            sandbox="none",
            workspace="/",
            pid=1,
            host="h",
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
