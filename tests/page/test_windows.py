"""Compares what the page says of each request with the requests that the server received."""

from __future__ import annotations

import json
import re

import pytest

from agentcli.events.actions import CondensationAction, MessageAction
from agentcli.sessions.session import read_session
from tests.server import Call, Reply

SUMMARY = "## Goal\n- count [2]\n\n## Done\n1. counted to 400 [5-9]"


def is_condenser(request) -> bool:
    return "summary of a coding agent's session" in json.dumps(request.body)[:3_000]


def window_data(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)<', html)[1])


def carried(data: dict, step: list) -> set[int]:
    """Return the events that a request carried according to the page."""
    base = data["bases"][step[1]]
    runs = [*base["shown"], [base["next"], step[0] - 1]]
    return {i for first, last in runs for i in range(first, last + 1)}


@pytest.mark.campaign
def test_the_window_of_each_step_is_what_was_sent(agent, serve):
    """Across a condensation, and after a rewind before some of the steps."""
    steps = [Reply(f"Step {n}.", [Call("bash", {"command": f"seq {n} 400"})]) for n in range(1, 8)]
    replies = iter([*steps, Reply("Step 8."), Reply("Step 9."), Reply("Step 10.")])
    server = serve(
        play=lambda request: Reply(SUMMARY) if is_condenser(request) else next(replies), sessions=9
    )
    assert agent.use(server)("run", "count").returncode == 0
    session = agent.sessions[0].name
    assert agent("compact", session).returncode == 0
    assert agent("resume", session, "go on").returncode == 0
    events = read_session(agent.sessions[0]).events
    said = {e.content: e.id for e in events if isinstance(e, MessageAction)}
    back = agent("rewind", session, "--to", str(said["Step 8."]), "--conversation")
    assert back.returncode == 0, back.stderr
    assert agent("resume", session, "once more").returncode == 0

    done = agent("sessions", "export", session, "--format", "html")
    assert done.returncode == 0, done.stderr
    data = window_data(done.stdout)
    events = read_session(agent.sessions[0]).events
    said = {e.content: e.id for e in events if isinstance(e, MessageAction)}
    asked = [request.body for request in server.requests if not is_condenser(request)]
    assert len(data["steps"]) == len(asked) == 10
    for step, body in zip(data["steps"], asked, strict=True):
        ids, sent = carried(data, step), json.dumps(body["messages"])
        _, _, messages, tokens, counted, shares = step
        assert messages == len(body["messages"])
        assert counted
        assert abs(sum(shares) - tokens) < len(shares)
        for text in [f"Step {n}." for n in range(1, 11)]:
            assert (said[text] in ids) == (text in sent), (step, text)
    before, after = data["bases"][0], data["bases"][1]
    [condensed] = (e.id for e in events if isinstance(e, CondensationAction))
    assert before["gone"] == []
    assert [run[2] for run in after["gone"]] == [condensed], "the condensation took it"
    assert data["bases"][2]["gone"][-1][2] in range(said["Step 9."], said["once more"])
