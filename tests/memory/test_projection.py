"""No history, whatever happened in it, becomes a request that a strict provider refuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.provider import Endpoint
from agentcli.memory.memory import Memory, WindowLimits
from agentcli.memory.projection import project
from agentcli.messages import Request, Role, ToolSchema
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
    memory = Memory(WindowLimits(lambda: tokens), TOOLS)
    for _ in range(2):
        if condensation := memory.condense_overflow(history, tokens / 2):
            history.append(condensation.model_copy(update={"id": len(history)}))
        history.append(MessageAction(id=len(history), content="And?", source=Source.USER))
        assert complaints(protocol, memory.window(history)) == []


@settings(max_examples=200)
@given(history=histories(), at=st.integers(0, 30))
def test_following_event_by_event_gives_what_a_fresh_look_gives(history, at):
    memory = Memory(WindowLimits(lambda: 1000))
    memory.window(history[:at])
    followed = [(m.role, m.content, m.tool_calls) for m in memory.window(history)]
    assert followed == [(m.role, m.content, m.tool_calls) for m in project(history)]


@settings(max_examples=200)
@given(history=histories(), tokens=st.integers(1, 100))
def test_a_slide_keeps_the_system_text_and_everything_the_user_said(history, tokens):
    memory = Memory(WindowLimits(lambda: tokens))
    condensation = memory.condense_overflow(history, tokens)
    if condensation is not None:
        history.append(condensation.model_copy(update={"id": len(history)}))
    shown = "\0".join(m.content for m in project(history) if m.role is not Role.TOOL)
    for event in history:
        if isinstance(event, MessageAction) and event.source is Source.USER:
            assert event.content in shown
    assert project(history)[0].role is Role.SYSTEM
