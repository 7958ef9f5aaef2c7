"""What providers refuse or demand, by the binary: a session goes on, and the person is told."""

from __future__ import annotations

import json
import signal

import pytest

from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.provider import address_variable, built_in
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import Message, Request, Role
from agentcli.messages import Reply as Answer
from tests.cli.test_run import wait_for
from tests.llm.faults import CASES, Outcome, staged
from tests.server import Altered, Call, HttpError, ModelServer, Recorded, Reply
from tests.server.plan import KEY
from tests.workspace.test_images import png

NO_OPTIONS = HttpError(400, message="Unknown parameter: 'stream_options'.")
UNVERIFIED = HttpError(
    400,
    message="The encrypted content gAAA could not be verified.",
    kind="invalid_encrypted_content",
)
LIST = Call("bash", {"command": "ls"})


@pytest.fixture
def reach(agent):
    """Make a server the address of its provider, and of others."""

    def use(server: ModelServer, *names: str) -> None:
        for name in names:
            agent.env[built_in(name).key_env or ""] = "sk-test-0123456789abcdef"
            path = server.messages_url if name == "anthropic" else server.base_url
            agent.env[address_variable(name)] = path

    return use


def turns(request: Recorded) -> list[dict]:
    """The model's own turns in a request to Chat Completions."""
    return [m for m in request.body["messages"] if m["role"] == "assistant"]


def test_a_refusal_is_answered_once_and_the_next_session_knows(agent, serve):
    server = agent.asks(serve([NO_OPTIONS, Reply("Done."), Reply("Again.")], sessions=3))
    done = agent("run", "do it")
    assert (done.stdout, done.returncode) == ("Done.\n", 0)
    (line,) = [row for row in done.stderr.splitlines() if "stream_options" in row]
    assert line.endswith("openai-chat/gpt-5.5: stream_options is left out for this model")
    (kept,) = (agent.home / "state" / "endpoints").iterdir()
    assert "stream_options" in json.loads(kept.read_text())["changes"]["unwanted"]

    again = agent("run", "do it again")
    assert again.stdout == "Again.\n"
    assert "stream_options" not in again.stderr
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


def test_a_server_that_refuses_everything_hears_of_each_cause_once(agent, serve):
    names = ("stream_options", "temperature", "tool_choice", "tools", "reasoning_effort", "model")
    words = ", ".join(f"'{name}'" for name in names)

    def refuse(request: Recorded) -> HttpError:
        return HttpError(400, message=f"Unsupported parameters: {words} are not supported")

    server = serve(play=refuse, sessions=20)
    done = agent.use(server)("run", "do it", "--effort", "high")
    assert done.returncode == 4
    assert "Unsupported parameters" in done.stderr
    bodies = [request.raw for request in server.requests]
    assert len(set(bodies)) == len(bodies) < 8, "no request is sent twice"


def test_words_without_a_cause_are_told_and_nothing_is_sent_again(agent, serve):
    server = serve([HttpError(400, message="The image store includes no max signature.")])
    done = agent.use(server)("run", "do it")
    assert done.returncode == 4
    assert "The image store includes no max signature." in done.stderr
    assert len(server.requests) == 1


def test_reasoning_of_another_account_is_dropped_for_good(agent, serve):
    thinks = Reply("", [LIST], reasoning="The list first.")
    server = agent.asks(
        serve([thinks, UNVERIFIED, Reply("Done."), Reply("Still.")], sessions=3), "openai/gpt-5.5"
    )
    done = agent("run", "list the files")
    assert done.stdout == "Done.\n"
    assert done.stderr.count("can't verify earlier reasoning") == 1

    resumed = agent("resume", "--last", "and now?")
    assert resumed.stdout == "Still.\n"
    kinds = [[item["type"] for item in request.body["input"]] for request in server.requests]
    assert ["reasoning" in each for each in kinds] == [False, True, False, False]
    assert "function_call" in kinds[-1]


def test_an_image_that_a_model_refuses_is_taken_out_and_the_model_told(agent, serve):
    (agent.workspace / "plot.png").write_bytes(png())
    refusal = HttpError(400, message="This model does not support image input.")
    server = agent.asks(serve([refusal, Reply("I can't see it."), Reply("Still.")], sessions=3))
    done = agent("run", "what is it?", "-i", "plot.png")
    assert done.stdout == "I can't see it.\n", done.stderr
    assert done.stderr.count("the model takes no images") == 1
    assert agent("resume", "--last", "and now?").stdout == "Still.\n"
    shown = [b"image_url" in request.raw for request in server.requests]
    assert shown == [True, False, False]
    assert b"can't be shown" in server.requests[-1].raw


def test_deepseek_gets_its_reasoning_back(agent, serve, reach):
    thinks = Reply("", [LIST], reasoning="The list first.")
    server = serve([thinks, Reply("Done.")], provider="deepseek")
    reach(server, "deepseek")
    done = agent("run", "list the files", "-m", "deepseek/deepseek-v4-pro")
    assert done.stdout == "Done.\n", done.stderr
    (turn,) = turns(server.requests[-1])
    assert turn["reasoning_content"] == "The list first."


def test_gemini_gets_the_signature_of_its_calls_back(agent, serve, reach):
    server = serve([Reply("", [LIST, LIST]), Reply("Done.")], provider="gemini")
    reach(server, "gemini")
    done = agent("run", "list the files", "-m", "gemini/gemini-3.8-flash")
    assert done.stdout == "Done.\n", done.stderr
    (turn,) = turns(server.requests[-1])
    first, second = turn["tool_calls"]
    assert first["extra_content"]["google"]["thought_signature"]
    assert "extra_content" not in second


def test_ids_and_thinking_of_claude_reach_no_other_provider(agent, serve, reach):
    thinks = Reply("", [LIST, LIST], reasoning="The list first.")
    claude = serve([thinks, Reply("Listed.")], provider="anthropic")
    reach(claude, "anthropic")
    assert agent("run", "list", "-m", "anthropic/claude-sonnet-5-5").stdout == "Listed.\n"

    for model in (
        "mistral/mistral-medium-latest",
        "gemini/gemini-3.8-flash",
        "deepseek/deepseek-v4-pro",
    ):
        name = model.partition("/")[0]
        server = serve([Reply("", [LIST]), Reply(f"{name} too.")], provider=name)
        reach(server, name)
        done = agent("resume", "--last", "again", "-m", model)
        assert done.stdout == f"{name} too.\n", done.stderr
        ids = [
            call["id"] for turn in turns(server.requests[-1]) for call in turn.get("tool_calls", ())
        ]
        assert len(set(ids)) == len(ids) >= 3
        if name == "mistral":
            assert {len(each) for each in ids} == {9}
        assert b"The list first." not in server.requests[-1].raw

    claude.add([Reply("And back.")])
    back = agent("resume", "--last", "once more", "-m", "anthropic/claude-sonnet-5-5")
    assert back.stdout == "And back.\n", back.stderr


def test_what_a_condensation_keeps_goes_without_its_bound_thinking(agent, serve, reach):
    def step(number: int) -> Reply:
        listing = Call("bash", {"command": f"seq {number} 400"})
        return Reply(f"Step {number}.", [listing], reasoning="Go on.")

    script = iter([*map(step, range(8)), Reply("Counted."), step(8), Reply("More.")])

    def play(request: Recorded) -> Reply:
        asks_summary = b"summary of a coding agent's session" in request.raw[:3_000]
        return Reply("## Goal\n- count") if asks_summary else next(script)

    server = serve(play=play, provider="anthropic", sessions=9)
    reach(server, "anthropic")
    model = ("-m", "anthropic/claude-sonnet-5-5")
    assert agent("run", "count", *model).stdout == "Counted.\n"
    agent.ok("compact", agent.sessions[0].name)
    assert agent("resume", "--last", "and more").stdout == "More.\n"
    *_, begun, ended = server.requests
    assert b'"type":"thinking"' not in begun.raw.partition(b'"messages"')[2]
    assert ended.raw.partition(b'"messages"')[2].count(b'"type":"thinking"') == 1


def test_what_the_users_own_members_cause_is_left_to_the_user(agent):
    grammar = "providers.llamacpp.extra_body={grammar = 'root ::= \"a\"'}"
    run = ("run", "-m", "llamacpp/m", "--set", grammar)
    with ModelServer([Reply("Done.")], provider="llamacpp") as server:
        agent.env[address_variable("llamacpp")] = server.base_url
        done = agent(*run, "do it")
        in_text = agent(*run, "--set", "providers.llamacpp.tool_format=text", "do it")
    assert (done.returncode, in_text.stdout) == (4, "Done.\n")
    assert "Cannot use custom grammar constraints with tools." in done.stderr
    assert "simplest form" not in done.stderr
    assert not (agent.home / "state" / "endpoints").exists()
    assert len(server.violations) == 1


FIRST = {"type": "thinking", "thinking": "First the list. Then", "signature": "c2lnbmVk"}
HIDDEN = {"type": "redacted_thinking", "data": "c2VhbGVk"}
PIECES = [
    {"type": "thinking", "thinking": "First the list."},
    {"type": "thinking", "thinking": " Then"},
    {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"},
    HIDDEN,
    {"type": "thinking", "thinking": "cut before it was signed"},
]


def with_thinking(events: list[bytes]) -> list[bytes]:
    """The answer as the proxy sends it: streamed in pieces, or whole."""
    if events[0].startswith(b"data:"):
        deltas = [{"choices": [{"index": 0, "delta": {"thinking_blocks": [p]}}]} for p in PIECES]
        return [*(b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas), *events]
    document = json.loads(events[0])
    document["choices"][0]["message"]["thinking_blocks"] = [FIRST, HIDDEN]
    return [json.dumps(document).encode()]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_signed_thinking_goes_back_with_the_reply(stream):
    step = Altered(Reply("Looking.", [Call("bash", {"command": "ls"})]), with_thinking)
    with ModelServer([step, Reply("Done.")], strict=False) as server:
        endpoint = Endpoint("litellm", "claude", f"{server.url}/v1", "key-0123", stream=stream)
        model = ChatCompletions(endpoint)
        model.connect()
        task = Message.user_message("go")
        answer = next(item for item in model.answer(Request([task])) if isinstance(item, Answer))
        assert answer.provider_data is not None
        called = Message.from_tool_calls(answer.tool_calls, answer.text, answer.provider_data)
        result = Message.tool_message("a.txt", answer.tool_calls[0].id)
        list(model.answer(Request([task, called, result])))
    said = server.requests[1].body["messages"][1]
    assert said["role"] == Role.ASSISTANT
    assert said["thinking_blocks"] == [FIRST, HIDDEN]


MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-5.5",
    "deepseek": "deepseek-v4-pro",
    "gemini": "gemini-3.8-flash",
    "llamacpp": "qwen3",
}
THERE_AND_BACK = [*MODELS, *list(MODELS)[-2::-1]]


def leg(number: int) -> list[Reply]:
    """What a model does on its part of the way: it looks at two things, and at a third when the
    program is killed; then it says that it is done."""
    looks = [Call("read", {"path": "plot.png"}), Call("glob", {"pattern": "*.png"})]
    busy = {"command": f"echo > begun.tmp; mv begun.tmp begun-{number}; sleep 1000"}
    return [
        Reply("Two looks.", looks, reasoning=f"The plot first, of {number}."),
        Reply("", [Call("bash", busy), looks[1]], reasoning="Now the rest."),
        Reply(f"Leg {number} is done.", reasoning="Nothing is left."),
    ]


@pytest.fixture
def servers(agent):
    """One of each provider; the program is told where they are."""
    opened = {name: ModelServer([], provider=name) for name in MODELS}
    for name, server in opened.items():
        server.start()
        key_env = built_in(name).key_env
        agent.env |= {key_env: KEY} if key_env else {}
    lines = [
        f'[providers.{name}]\nbase_url = "{server.url if name == "anthropic" else server.base_url}"'
        for name, server in opened.items()
    ]
    settings = agent.home / "config.toml"
    settings.write_text('[sandbox]\nlayer = "none"\n' + "\n".join(lines), encoding="utf-8")
    agent.env["AGENT_CONFIG"] = str(settings)
    yield opened
    for server in opened.values():
        server.close()


def test_a_session_goes_from_model_to_model_and_back(agent, servers):
    (agent.workspace / "plot.png").write_bytes(png(4, 2))
    for number, name in enumerate(THERE_AND_BACK):
        server = servers[name]
        server.add(leg(number))
        model = ["-m", f"{name}/{MODELS[name]}", "--effort", "high", "--yolo"]
        begin = ["resume", "--last", "Look again."] if number else ["run", "Look."]
        process = agent.start(*begin, *model)
        wait_for(agent.workspace / f"begun-{number}", process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        done = agent("resume", "--last", *model)
        assert done.stdout == f"Leg {number} is done.\n", done.stderr
        assert {each: found.violations for each, found in servers.items() if found.violations} == {}
    for server in servers.values():
        assert server.requests[-1].raw.count(b"plot.png") >= len(THERE_AND_BACK)


NAMES = [
    "401-openai-chat-streamed",
    "401 with the key-openai-streamed",
    "404 model-anthropic-streamed",
    "429 quota-openai-streamed",
    "529, once-anthropic-streamed",
    "529, always-anthropic-whole",
    "502 page, always-openai-streamed",
    "retry-after '3600' is too long-openai-streamed",
    "redirect 307-openai-chat-streamed",
    "redirect 302-anthropic-whole",
    "refused-openai-streamed",
    "reset without an answer, always-openai-chat-whole",
    "close after 4 events, always-openai-chat-streamed",
    "cut after 4 events, always-anthropic-streamed",
    "reset after 4 events, once-openai-streamed",
    "silent-anthropic-whole",
    "mute-openai-chat-streamed",
    "falls silent-openai-streamed",
    "sends a page, always-openai-whole",
    "sends a page, always-openai-chat-streamed",
    "sends not UTF-8, always-anthropic-streamed",
    "chat_completions error frame overloaded_error after 3, always-openai-chat-streamed",
    "responses error frame slow_down after 3, always-openai-streamed",
    "anthropic_messages error frame overloaded_error after 3, always-anthropic-streamed",
    "text with line separators-openai-chat-streamed",
    "text with a lone surrogate-openai-whole",
    "text with escapes-anthropic-streamed",
    "empty, always-anthropic-streamed",
    "filtered, always-openai-streamed",
    "cut in a call, once-openai-chat-streamed",
    "calls announced, always-openai-chat-streamed",
    "arguments: broken, always-anthropic-streamed",
    "arguments encoded twice-openai-streamed",
    "tool name with blanks, once-openai-chat-streamed",
    "usage absurd-anthropic-streamed",
    "too long for Anthropic, once-anthropic-streamed",
    "too long for OpenAI, always-openai-chat-streamed",
]


@pytest.mark.parametrize("case", NAMES)
def test_a_fault_ends_in_the_work_done_or_in_a_clear_error(agent, case):
    with staged(*CASES[case]) as stage:
        agent.use(stage.server)
        agent.env |= stage.environment(agent.home / "state")
        settings = [f"{key}={json.dumps(value)}" for key, value in stage.settings.items()]
        assigned = [word for setting in settings for word in ("--set", setting)]
        done = agent("run", "do it", "--output-format", "json", *assigned)
        result = json.loads(done.stdout)
        told = done.stdout + done.stderr
        outcome = Outcome(result["reason"], done.returncode, result["answer"], told)
        stage.check(outcome, agent.workspace, agent.sessions[0])
    assert result["exit_code"] == done.returncode
    assert KEY not in told
    if done.returncode:
        assert "error: " in done.stderr
        assert result["error"]["message"]
        assert "agent resume" in result["resume_command"]
        assert "agent resume" in done.stderr
