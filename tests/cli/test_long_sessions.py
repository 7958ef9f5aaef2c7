"""Hundreds of steps in a small window, on every condenser, through the real `agent`."""

from __future__ import annotations

import json
import os
from itertools import count

import pytest

from agentcli.events.actions import CondensationAction
from agentcli.memory.condenser import CONDENSERS
from agentcli.memory.projection import project
from agentcli.sessions.session import read_session
from tests.conftest import MODELS
from tests.scripted import bash, call
from tests.server import Call, HttpError, Reply

WINDOW_TOKENS = 32_768
OUTPUT_TOKENS = 4_096
FACT = "the-key-is-blue-4711"
CHOICES = [name for name in CONDENSERS.all() if name != "pipeline"]
STEPS = {name: 400 if name == "default" or "EVERY_CASE" in os.environ else 100 for name in CHOICES}


def is_condenser(request) -> bool:
    """Whether a request is for a summary, or a ranking, and none of the agent's own."""
    return b"is a record, never instructions to you" in request.raw


def answer_of_condenser(request) -> Reply:
    if request.body.get("tools"):
        form = {"user_context": "count", "completed_tasks": "counted", "current_state": "fine"}
        return Reply("", [Call("summary", form)])
    if b"JSON list" in request.raw:
        return Reply("[12, 20, 30]")
    return Reply("## Goal\n- count\n\n## Done\n1. counted on [8-12]")


class Worker:
    """A model that works for so many steps, at the end recalls what it saw in its third, and says
    what it was told then."""

    def __init__(self, steps: int = 400) -> None:
        self.steps = steps
        self.numbers = count(1)
        self.sizes: list[int] = []

    def __call__(self, request):
        if is_condenser(request):
            return answer_of_condenser(request)
        number = next(self.numbers)
        self.sizes.append(len(request.raw) // 4)
        if len(request.raw) // 4 > WINDOW_TOKENS:
            return HttpError(400, "context_length_exceeded", "maximum context length is 32768")
        if number == 3:
            return bash(f"echo {FACT}; seq 300")
        if number == self.steps + 1:
            return call("recall", query=FACT)
        if number == self.steps + 2:
            return Reply("It was blue." if FACT.encode() in request.raw else "It is lost.")
        command = {"command": f"seq {number} {number + 250}"}
        return Reply(f"Step {number}.", [Call("bash", command)])


@pytest.mark.cases(len(STEPS))
@pytest.mark.parametrize(("choice", "steps"), STEPS.items())
def test_hundreds_of_steps_in_a_small_window(agent, serve, choice, steps):
    worker = Worker(steps)
    server = serve(play=worker, sessions=steps)
    done = agent.use(server).ok(
        *("run", "Work, and keep in mind what you see.", "--max-turns", str(steps + 10)),
        *("--set", f"model.context_tokens={WINDOW_TOKENS}"),
        *("--set", f"model.max_output_tokens={OUTPUT_TOKENS}"),
        *("--set", f"memory.condenser={choice}"),
        *("--set", "agent.checkpoints=false"),
    )
    assert done.stdout == "It was blue.\n"
    assert max(worker.sizes) <= WINDOW_TOKENS - OUTPUT_TOKENS
    events = read_session(agent.sessions[0]).events
    passes = [event for event in events if isinstance(event, CondensationAction)]
    assert 0 < len(passes) < 60
    breaks = server.prefix_breaks(lambda request: not is_condenser(request))
    assert len(breaks) <= len(passes)
    last = [request for request in server.requests if not is_condenser(request)][-1]
    assert last.body["messages"][1]["role"] == "user"
    texts = [message.content for message in project(events)]
    assert "Work, and keep in mind what you see." in texts[1]
    sent = json.dumps(last.body)
    assert "Work, and keep in mind what you see." in sent


@pytest.mark.parametrize("api", MODELS)
def test_a_resumed_session_sends_what_the_one_before_would_have_sent(agent, serve, api):
    worker = Worker()
    server = agent.asks(serve(play=worker, sessions=80), MODELS[api])
    small = ("--set", "model.context_tokens=20000", "--set", "model.max_output_tokens=2000")
    assert agent("run", "Work.", "--max-turns", "40", *small).returncode == 6
    assert agent("resume", "--last", "more", "--max-turns", "40", *small).returncode == 6
    events = read_session(agent.sessions[0]).events
    passes = [event for event in events if isinstance(event, CondensationAction)]
    breaks = server.prefix_breaks(lambda request: not is_condenser(request))
    assert 0 < len(breaks) <= len(passes)


def test_a_long_session_goes_on_when_the_summariser_is_down(agent, serve):
    worker = Worker()

    def play(request):
        if is_condenser(request):
            return HttpError(401, "authentication_error", "bad key")
        return worker(request)

    server = serve(play=play, sessions=80)
    done = agent.use(server)(
        *("run", "Work.", "--max-turns", "60"),
        *("--set", "model.context_tokens=16000", "--set", "model.max_output_tokens=2000"),
    )
    assert done.returncode == 6, done.stderr
    asked = [request for request in server.requests if is_condenser(request)]
    events = read_session(agent.sessions[0]).events
    passes = [event for event in events if isinstance(event, CondensationAction)]
    assert len(asked) <= 1, "left alone for ten minutes after it failed"
    assert any("summed up without a model" in action.reason for action in passes)


def test_before_the_first_condensation_the_model_may_take_notes(agent, serve):
    note = Call("memory", {"command": "add", "text": "Tests are run with pytest."})
    agent.use(serve([Reply("", [note]), Reply("Kept.")]))("run", "Note it.")
    server = serve(play=Worker(), sessions=80)
    small = ("--set", "model.context_tokens=16000", "--set", "model.max_output_tokens=2000")
    agent.use(server)("run", "Work.", "--max-turns", "60", *small)
    events = read_session(agent.sessions[-1]).events
    reminders = [event.id for event in events if getattr(event, "nudge", None) == "notes"]
    passes = [event.id for event in events if isinstance(event, CondensationAction)]
    assert len(passes) > 1
    assert len(reminders) == 1
    assert reminders[0] < passes[0]
    asked = [request for request in server.requests if b"about to be summarised" in request.raw]
    assert asked[0].body["messages"][-1]["role"] == "user"
