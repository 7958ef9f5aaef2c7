"""What the model is told of its calls after a kill, and that a message is never lost on the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentcli.agent.loop import run_turn
from agentcli.errors import TurnInterrupted
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import SessionStartedObservation
from agentcli.llm.catalog import Catalog
from agentcli.llm.client import ModelClient
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.spending import CallBudget
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import Message, Request, Role, ToolCall
from agentcli.sessions.inbox import put
from agentcli.sessions.session import SessionLog
from agentcli.settings import LLMSettings
from tests.agent.parts import Tools, agent_of, limits_of, says
from tests.server import Reply


@pytest.fixture
def session(tmp_path: Path):
    with SessionLog.create(tmp_path / "20260101-000000-abcd") as session:
        session.emit(
            SessionStartedObservation(
                version="1",
                session_id=session.id,
                model="m",
                sandbox="none",
                workspace="/",
                pid=1,
                host="here",
            )
        )
        session.emit(MessageAction(content="do it", source=Source.USER))
        yield session


def test_after_a_kill_only_the_call_that_ran_has_an_unknown_effect(session, tmp_path):
    killed = tmp_path / "20260101-000000-dead"

    def kill_in_the_second(action):
        if len(tools.began) == 2:
            shutil.copytree(session.folder, killed)
            raise TurnInterrupted("interrupted", 130)

    tools = Tools(kill_in_the_second)
    run_turn(agent_of(says("", "a", "b", "c", "d"), tools=tools), session)
    with SessionLog.open(killed) as again:
        agent = agent_of(says("I see."))
        run_turn(agent, again)
    (request,) = agent.llm.requests
    first, second, *rest = [m for m in request.messages if m.role is Role.TOOL]
    assert first.content.startswith("done")
    assert "killed while this was running" in second.content
    assert [m.content for m in rest] == [
        "Not started: agent was killed before it came to this."
    ] * 2
    assert [m.is_error for m in (first, second, *rest)] == [False, True, True, True]


def test_a_failed_call_is_marked_as_failed_for_anthropic(serve):
    server = serve([Reply("I see.")])
    endpoint = Endpoint("anthropic", "m", server.url, "sk-test-0123456789abcdef")
    llm = ModelClient(AnthropicMessages(endpoint), "anthropic/m", LLMSettings(), Catalog({}))
    calls = [ToolCall("toolu_1", "bash", "{}"), ToolCall("toolu_2", "bash", "{}")]
    messages = [
        Message.user_message("do it"),
        Message.from_tool_calls(calls),
        Message.tool_message("no such file", "toolu_1", is_error=True),
        Message.tool_message("fine", "toolu_2"),
    ]
    llm.complete(Request(messages), lambda _: None, CallBudget(None), lambda event: event)
    sent = json.loads(server.requests[0].raw)["messages"][-1]["content"]
    assert [block.get("is_error", False) for block in sent] == [True, False]


class InboxWatch:
    """What is in the inbox when a message of it is recorded."""

    def __init__(self, folder: Path) -> None:
        self._inbox = folder / "inbox"
        self.seen: list[int] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, MessageAction) and event.inbox_id:
            self.seen.append(len(list(self._inbox.iterdir())))

    def on_progress(self, progress: object) -> None: ...


def test_a_queued_message_stays_in_the_inbox_until_it_is_recorded(session):
    watch = InboxWatch(session.folder)
    session.subscribe(watch)
    put(session.folder, "and the docs", "queue")
    run_turn(agent_of(says("Done."), says("The docs too.")), session)
    assert watch.seen == [1]
    assert list((session.folder / "inbox").iterdir()) == []


def test_after_a_turn_that_a_limit_ended_a_queued_message_comes_first(session):
    limits = limits_of(max_turns=1)
    run_turn(agent_of(says("", "a"), limits=limits), session)
    put(session.folder, "stop that", "queue")
    agent = agent_of(says("Stopped."), limits=limits)
    assert run_turn(agent, session).answer == "Stopped."
    assert agent.llm.requests[0].messages[-1].content == "stop that"


def test_an_interrupted_turn_has_no_answer(session):
    def press(action):
        raise TurnInterrupted("interrupted", 130)

    result = run_turn(agent_of(says("Let me see.", "a"), tools=Tools(press)), session)
    assert (result.exit_code, result.answer) == (130, "")
