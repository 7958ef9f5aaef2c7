"""Work in windows of a few thousand tokens, at servers that refuse whatever does not fit."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from agentcli.events.observations import PrefixChangedObservation
from agentcli.sessions.session import read_session
from tests.conftest import MODELS
from tests.scripted import bash, call
from tests.server import Call, HttpError, Reply, Usage

TASK = "Count the files, and mind the-blue-key."
STEPS = 12
PRINTS = {
    "numbers": "seq 3000",
    "code": "for i in $(seq 300); do echo '    if (a.value != b.value) { return f(a, b); }'; done",
    "Chinese": "for i in $(seq 300); do echo 快速的棕色狐狸跳过了懒狗; done",
    "little": "echo ok",
}
_TOKEN = re.compile(r"\d{1,3}|[A-Za-z]{1,5}|[^\x00-\x7f]|[^\sA-Za-z\d]{1,2}|\s+")


def tokens_of(body) -> int:
    """What a tokenizer makes of a request that is not kind to code: about 3.5 bytes each."""
    texts = [text_of(message) for message in body["messages"]]
    texts += [call["function"]["arguments"] for m in body["messages"] for call in calls_of(m)]
    schemas = len(json.dumps(body.get("tools") or [])) // 4
    return schemas + sum(len(_TOKEN.findall(text)) for text in texts)


def text_of(message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def calls_of(message):
    return message.get("tool_calls") or []


@dataclass
class Strict:
    """A server with a window of so many tokens, and a model that prints and counts."""

    window: int
    prints: str = "little"
    words: str = "maximum context length is {} tokens"
    summary: str = "## Goal\n- count"
    steps: int = STEPS
    refused: int = 0
    done: int = 0
    results: list[str] = field(default_factory=list)
    without_task: int = 0

    def __call__(self, request):
        body = request.body
        cap = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        tokens = tokens_of(body)
        if tokens + cap > self.window:
            self.refused += 1
            return HttpError(400, "invalid_request_error", self.words.format(self.window))
        return replace(self.answer(request), usage=Usage(tokens, 20))

    def answer(self, request) -> Reply:
        body = request.body
        if not body.get("tools"):
            return Reply(self.summary)
        self.without_task += "the-blue-key" not in request.raw.decode()
        # After a condensation, a message says where the session is.
        new = [m for m in body["messages"][-2:] if m["role"] in ("tool", "assistant")]
        self.results += [text_of(m) for m in new[-1:] if m["role"] == "tool"]
        if self.done == self.steps:
            return Reply("All is counted.")
        self.done += 1
        command = f"{PRINTS[self.prints]}; echo {self.done} >> done.txt"
        return Reply("", [Call("bash", {"command": command})])


def work(agent, serve, server: Strict, *flags: str, task: str = TASK):
    return agent.use(serve(play=server, sessions=80))("run", *flags, task)


def assert_all_is_done(agent, done, server: Strict) -> None:
    assert done.returncode == 0, done.stderr
    assert done.stdout == "All is counted.\n"
    assert (agent.workspace / "done.txt").read_text().split() == [
        str(number + 1) for number in range(server.steps)
    ]
    assert server.without_task == 0


@pytest.mark.parametrize("prints", PRINTS)
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
def test_nothing_is_sent_that_does_not_fit(agent, serve, window, prints):
    server = Strict(window, prints)
    done = work(agent, serve, server, "--set", f"model.context_tokens={window}")
    assert_all_is_done(agent, done, server)
    assert server.refused <= 2, "only while the estimate is far from what the server counts"


@pytest.mark.parametrize("prints", ["numbers", "code"])
def test_the_model_sees_of_each_result_what_there_is_room_for(agent, serve, prints):
    server = Strict(8_000, prints)
    done = work(agent, serve, server, "--set", "model.context_tokens=8000")
    assert_all_is_done(agent, done, server)
    seen = [result for result in server.results if len(result) > 1_000]
    assert len(seen) >= STEPS - 2


@pytest.mark.parametrize(
    ("window", "one", "together"),
    # 5 % and 15 % of the window, at up to 6 bytes a token; as set, at most 30,000 for a command.
    [(32_000, 9_600, 28_800), (1_000_000, 31_000, 120_000)],
)
def test_results_take_a_small_part_of_the_window(agent, serve, window, one, together):
    lines = "".join(f"a line with the number {n}\n" for n in range(40_000))
    (agent.workspace / "lines.txt").write_text(lines)
    reads = [Call("read", {"path": "lines.txt", "start": n, "end": n + 700}) for n in range(1, 6)]
    script = [bash("seq 90000"), Reply("", reads), Reply("Read.")]
    server = agent.asks(serve(script))
    agent.ok("run", "read", "--set", f"model.context_tokens={window}")
    sizes = [len(m["content"]) for m in server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert one * 0.4 < sizes[0]
    assert max(sizes) <= one * 1.05
    assert sum(sizes[1:]) <= together * 1.1
    assert min(sizes) > 2_000


@pytest.mark.parametrize(
    "words", ["context size ({} tokens) exceeded", "Prompt exceeds max length"]
)
@pytest.mark.parametrize("prints", ["numbers", "code"])
def test_a_window_smaller_than_is_known_costs_a_few_requests(agent, serve, words, prints):
    server = Strict(8_000, prints, words)
    done = work(agent, serve, server)
    assert_all_is_done(agent, done, server)
    assert server.refused <= 6


@pytest.mark.parametrize(
    "summary",
    ["", "lorem ipsum", "## Done\n" + "- and more and more\n" * 2_000],
    ids=["empty", "useless", "too long"],
)
def test_whatever_the_summariser_says_the_work_goes_on(agent, serve, summary):
    server = Strict(8_000, "code", summary=summary)
    done = work(agent, serve, server, "--set", "model.context_tokens=8000")
    assert_all_is_done(agent, done, server)


@pytest.mark.parametrize("flags", [("--set", "model.context_tokens=8000"), ()])
def test_instructions_larger_than_the_window_are_cut(agent, serve, flags):
    (agent.workspace / "AGENTS.md").write_text("# Rules\n" + "Always be careful.\n" * 4_000)
    server = Strict(8_000)
    assert_all_is_done(agent, work(agent, serve, server, *flags), server)


def test_of_a_task_larger_than_the_window_the_model_sees_beginning_and_end(agent, serve):
    server = Strict(8_000)
    long = f"{TASK} {'Do it well. ' * 5_000}"
    done = work(agent, serve, server, "--set", "model.context_tokens=8000", task=long)
    assert_all_is_done(agent, done, server)


def test_what_can_not_fit_is_named_and_not_sent(agent, serve):
    server = Strict(1_000)
    done = work(agent, serve, server, "--set", "model.context_tokens=1000")
    assert done.returncode == 4
    assert "the window of the model 1,000" in done.stderr
    assert "tools (tools, about" in done.stderr
    assert "--set model.context_tokens=" in done.stderr
    assert server.refused == 0


PREFIX_STEPS = 200 if "EVERY_CASE" in os.environ else 80


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
    server = agent.asks(serve(play=working(PREFIX_STEPS)), MODELS[api])
    limits = ("--set", "agent.max_bad_calls=9", "--set", "memory.condenser=noop")
    assert agent("run", "work", "--max-turns", str(PREFIX_STEPS // 2), *limits).returncode == 6
    agent.ok("resume", "--last", "go on", "--max-turns", str(PREFIX_STEPS), *limits)
    assert len(server.requests) == PREFIX_STEPS + 1
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
    reads = [call("read", path="long.txt", start=n) for n in range(1, 13)]
    server = agent.asks(serve([*reads, Reply("Enough.")], sessions=13))
    agent.ok("run", "read it again and again", "--set", "model.context_tokens=8000")
    assert server.prefix_breaks() != []
    assert changes(agent) == []
