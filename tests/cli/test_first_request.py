"""What a session offers its model, and what the first request costs."""

from __future__ import annotations

import json

import pytest

from tests.conftest import PYTHON
from tests.scripted import bash
from tests.server import Call, Reply

MOST_TOKENS = 1_500
WIDER = {"network", "unsandboxed", "reason"}


def offer(request) -> dict[str, set[str]]:
    """The tools of a request with the names of their arguments."""
    functions = [tool["function"] for tool in request.body["tools"]]
    return {f["name"]: set(f["parameters"]["properties"]) for f in functions}


def test_a_first_request_without_anybody_to_ask_is_short(agent, serve, repository):
    """Four bytes to a token; instructions, system text, tools and message."""
    server = agent.asks(serve([Reply("Done.")]))
    agent.ok("run", "fix the failing test")
    body = server.requests[0].body
    sent = [[message["content"] for message in body["messages"]], body["tools"]]
    assert len(json.dumps(sent, ensure_ascii=False, separators=(",", ":"))) / 4 <= MOST_TOKENS
    offered = offer(server.requests[0])
    assert not offered.keys() & {"ask", "memory", "python", "session_search"}
    assert "finish" in offered, "its status is the exit code of a run"
    assert not offered["bash"] & {*WIDER, "risk"}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--yolo",), WIDER),
        (("--allow", "bash(pip install:*)"), WIDER),
        (("--deny", "bash(pip install:*)"), set()),
        (("--yolo", "--no-sandbox"), set()),
    ],
)
def test_wider_access_is_offered_where_a_rule_or_the_mode_may_grant_it(agent, serve, flags, told):
    server = agent.asks(serve([Reply("Done.")]))
    agent.ok("run", *flags, "x")
    assert offer(server.requests[0])["bash"] & {*WIDER, "risk"} == told


def test_notes_and_sessions_are_offered_once_there_are_some(agent, serve):
    note = Call("memory", {"command": "add", "text": "Tests are run with pytest."})
    server = agent.asks(serve([Reply("", [note]), Reply("Kept."), Reply("Done.")], sessions=2))
    agent.ok("run", "x")
    agent.ok("run", "x")
    first, *_, last = map(offer, (request for request in server.requests))
    assert not first.keys() & {"memory", "session_search"}
    assert {"memory", "session_search"} <= last.keys()


def test_where_a_user_answers_questions_are_offered(agent, serve, talk):
    server = agent.asks(serve([Reply("Done.")]))
    terminal = talk("run", "x")
    terminal.until("Done.")
    assert terminal.ended() == 0
    offered = offer(server.requests[0])
    assert {"ask", "memory"} <= offered.keys()
    assert {*WIDER, "risk"} <= offered["bash"]


def test_a_session_keeps_its_offer_whoever_resumes_it(agent, serve, talk):
    """Another offer would cost the provider's cache; the fixture checks the prefix, too."""
    server = agent.asks(serve([bash("true"), Reply("one"), Reply("two"), Reply("three")]))
    agent.ok("run", *PYTHON, "start")
    terminal = talk("resume", "--last", "more")
    terminal.until("two")
    agent("resume", "--last", "and more")
    offers = [request.body["tools"] for request in server.requests]
    assert all(each == offers[0] for each in offers)
    assert "python" in offer(server.requests[-1])
