"""From a reply to events, and from events to whether the turn is over."""

from __future__ import annotations

import pytest

from agentcli.agent.replies import ending_of_reply, last_answer
from agentcli.agent.replies import events_of as reply_events
from agentcli.events.observations import ReplyDiscardedObservation
from agentcli.memory.projection import project
from agentcli.messages import FinishReason, Reply, Role, ToolCall, Usage
from agentcli.sessions.state import AgentState
from agentcli.tools.registry import TOOLS, ToolRegistry
from tests.agent.histories import History


def events_of(text="", finish=FinishReason.STOP, calls=()):
    tools = ToolRegistry(TOOLS.all().values(), context=None)
    reply = Reply(text, tuple(calls), finish, Usage(), "m", "r1")
    return [e.model_copy(update={"id": n}) for n, e in enumerate(reply_events(reply, tools))]


def test_a_text_that_ended_well_is_the_answer():
    events = events_of("Done.")
    assert ending_of_reply(events, interactive=False).agent_state is AgentState.FINISHED
    assert ending_of_reply(events, interactive=True).agent_state is AgentState.AWAITING_USER_INPUT


@pytest.mark.parametrize("status", ["success", "failure"])
def test_finish_is_the_last_word_wherever_it_stands(status):
    finish = ToolCall("a", "finish", f'{{"status": "{status}", "answer": "x"}}')
    calls = [finish, ToolCall("b", "bash", '{"command": "ls"}')]
    ending = ending_of_reply(events_of("", FinishReason.TOOL_CALLS, calls), interactive=False)
    assert (ending.agent_state, ending.exit_code) == (AgentState.FINISHED, status == "failure")


@pytest.mark.parametrize("finish", [f for f in FinishReason if f not in ("stop", "tool_calls")])
def test_a_text_that_was_cut_off_is_no_answer_even_when_its_note_is_lost(finish):
    events = events_of("Half an ans", finish, [ToolCall("a", "bash", "{}")])
    assert all(event.tool_call_metadata is None for event in events)
    assert ending_of_reply(events, interactive=False) is None
    assert [m.role for m in project(events)] == [Role.ASSISTANT, Role.USER]
    first = events[0].reply
    assert first.index < first.total - 1, "without its note the reply is torn, and is discarded"
    torn = [events[0], ReplyDiscardedObservation(id=1, reply_id=first.id)]
    assert ending_of_reply(torn, interactive=False) is None
    assert project(torn) == []


def test_what_the_model_was_told_is_no_answer_of_it():
    assert last_answer(History().said("Done.").told("[It is not.]").events) == "Done."
    assert last_answer(History().said("Done.").user("And now?").events) == ""
