"""Every request begins with the whole of the one before it, so that the prompt cache holds."""

from __future__ import annotations

import json
import os
from itertools import count

import pytest

from agentcli.events.observations import PrefixChangedObservation
from agentcli.sessions.session import read_session
from tests.conftest import MODELS
from tests.server import Call, Reply

STEPS = 200 if "EVERY_CASE" in os.environ else 80


def working(steps: int):
    """A model that works for so many steps, in ways that leave traces of many kinds."""
    numbers = count(1)

    def play(request):
        number = next(numbers)
        if number > steps:
            return Reply("All done.", reasoning="Nothing is left.")
        kinds = (
            [Call("glob", {"pattern": "*.txt"})],
            [Call("write", {"path": f"{number}.txt", "content": f"é {number}\n"})],
            [Call("read", {"path": f"{number - 1}.txt"}), Call("read", {"path": "missing"})],
            [Call("grep", {"pattern": "[", "path": "."})],
            [Call("nonsense", "{broken")],
        )
        return Reply(f"Step {number}." * (number % 2), kinds[number % 5], reasoning="Hm.")

    return play


def changes(agent) -> list[str]:
    events = read_session(agent.sessions[0]).events
    return [event.changed for event in events if isinstance(event, PrefixChangedObservation)]


@pytest.mark.parametrize("api", MODELS)
def test_the_fixed_prompt_is_short(agent, serve, api):
    """System text and tools as they are sent, in tokens of 4 bytes."""
    server = serve([Reply("Done.")])
    assert agent.use(server, MODELS[api])("run", "hi").returncode == 0
    body = server.requests[0].body
    system = body.get("system") or body.get("instructions") or body["messages"][0]["content"]
    sizes = (
        json.dumps(part, ensure_ascii=False, separators=(",", ":"))
        for part in (system, body["tools"])
    )
    assert sum(len(size.encode()) for size in sizes) / 4 <= 1_750


@pytest.mark.campaign
@pytest.mark.parametrize("api", MODELS)
def test_many_steps_in_two_processes(agent, serve, api):
    server = serve(play=working(STEPS))
    agent.use(server, MODELS[api])
    limits = ("--set", "agent.max_bad_calls=9", "--set", "memory.condenser=noop")
    assert agent("run", "work", "--max-turns", str(STEPS // 2), *limits).returncode == 6
    done = agent("resume", "--last", "go on", "--max-turns", str(STEPS), *limits)
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == STEPS + 1
    assert server.prefix_breaks() == []
    assert changes(agent) == []
    for request in server.requests:
        body = request.body
        if api == "anthropic_messages":
            assert 1 <= request.raw.count(b'"cache_control"') <= 4
        else:
            assert body["prompt_cache_key"] == server.requests[0].body["prompt_cache_key"]
    share = json.loads(agent("sessions", "list", "--json").stdout)[0]
    assert share["cache_read_tokens"] > 0.9 * share["prompt_tokens"]


def test_another_model_on_resume_is_named_before_it_is_asked(agent, serve):
    agent.use(serve([Reply("one"), Reply("two"), Reply("three")], sessions=2))
    agent("run", "start")
    done = agent("resume", "--last", "more", "-m", "openai/gpt-5.5", "-v")
    assert "model differs from the request before" in done.stderr
    assert changes(agent) == ["model"]
    agent("resume", "--last", "still more")
    assert changes(agent) == ["model"]


def test_a_condensation_is_no_surprise(agent, serve):
    text = "many words to fill the window with\n" * 80
    (agent.workspace / "long.txt").write_text(text)
    reads = [Reply("", [Call("read", {"path": "long.txt", "start": n})]) for n in range(1, 13)]
    server = serve([*reads, Reply("Enough.")], sessions=13)
    agent.use(server)
    done = agent("run", "read it again and again", "--set", "model.context_tokens=8000")
    assert done.returncode == 0, done.stderr
    assert server.prefix_breaks() != []
    assert changes(agent) == []
