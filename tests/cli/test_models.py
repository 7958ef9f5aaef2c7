"""Which model answers: who takes over from whom, keys, parts of a body, tools told in text."""

from __future__ import annotations

import base64
import json

import pytest

from agentcli.sessions.session import read_session
from tests.conftest import MODELS
from tests.server import Call, HttpError, Recorded, Reply

IMPATIENT = ("--set", "llm.retries=1", "--set", "llm.retry_base_s=0")
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)
FIRST_KEY, SECOND_KEY = "first-" + "0123456789abcdef", "second-" + "0123456789abcdef"


def configure(agent, text: str) -> None:
    path = agent.home / "config.toml"
    path.write_text(text)
    agent.env["AGENT_CONFIG"] = str(path)


def standing_in(agent, server, model: str = "lab/spare") -> None:
    """`server` answers for `model`, which takes over from the main one."""
    configure(
        agent,
        f'[model]\nfallback = ["{model}"]\n'
        f'[providers.lab]\nbase_url = "{server.url}/v1"\napi_key_env = "OPENAI_API_KEY"\n',
    )


def switches(agent) -> list[tuple[str, str, str]]:
    events = read_session(agent.sessions[0]).events
    return [
        (event.from_model, event.to_model, event.reason)
        for event in events
        if event.kind == "model_switched"
    ]


def answered_by(agent) -> list[str]:
    events = read_session(agent.sessions[0]).events
    return [event.llm_metrics.model for event in events if event.llm_metrics]


@pytest.mark.parametrize("api", MODELS)
def test_another_model_goes_on_when_one_is_down_and_stands_back_next_turn(agent, serve, api):
    calls = [Call("bash", {"command": "echo hi"})]
    main = serve([HttpError(503), HttpError(503), Reply("Back.")])
    spare = serve([Reply("", calls), Reply("Done.")])
    standing_in(agent.use(main, MODELS[api]), spare)
    done = agent("run", "x", *IMPATIENT)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "going on with lab/spare" in done.stderr
    assert (len(main.requests), len(spare.requests)) == (2, 2)
    assert switches(agent) == [(MODELS[api], "lab/spare", "overloaded")]
    done = agent("resume", "--last", "and now?", *IMPATIENT)
    assert (done.returncode, done.stdout) == (0, "Back.\n")
    assert answered_by(agent) == ["lab/spare", "lab/spare", MODELS[api]]


def test_when_all_fail_the_first_error_is_told_with_the_others(agent, serve):
    main = serve([HttpError(429, "insufficient_quota", "You exceeded your current quota.")])
    standing_in(agent.use(main), serve([HttpError(500, message="broken")] * 2))
    done = agent("run", "x", *IMPATIENT)
    assert done.returncode == 4
    assert "exceeded your current quota" in done.stderr
    assert "lab/spare: " in done.stderr
    assert "broken" in done.stderr
    assert len(main.requests) == 1


@pytest.mark.parametrize(
    ("status", "message", "exit_code"),
    [(404, "no such model", 3), (400, "Invalid model name", 3), (400, "bad role", 4)],
)
def test_nobody_takes_over_where_the_configuration_is_wrong(
    agent, serve, status, message, exit_code
):
    main, spare = serve([HttpError(status, message=message)]), serve()
    standing_in(agent.use(main), spare)
    assert agent("run", "x", *IMPATIENT).returncode == exit_code
    assert spare.requests == []
    done = agent("run", "x", "--set", 'model.fallback=["nobody/x"]')
    assert done.returncode == 3
    assert "no provider for model 'nobody/x'" in done.stderr
    del agent.env["OPENAI_API_KEY"]
    done = agent("run", "x")
    assert done.returncode == 3
    assert len(main.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_asked_for_again_and_stays_secret(agent, serve, status):
    script = agent.home / "key"
    script.write_text(
        f'#!/bin/sh\n[ -e "$0.used" ] && echo {SECOND_KEY} || echo {FIRST_KEY}\n: > "$0.used"\n'
    )
    script.chmod(0o700)

    def play(request: Recorded) -> object:
        if SECOND_KEY not in request.headers["authorization"]:
            return HttpError(status, message=f"{FIRST_KEY} has expired")
        return Reply(f"It is {SECOND_KEY}, before {FIRST_KEY}.")

    server = serve(play=play)
    configure(agent, f'[providers.openai]\napi_key_command = "{script}"\n')
    agent.use(server, MODELS["responses"])
    done = agent("run", "x", "--set", "llm.retries=0", "--set", "llm.retry_base_s=1000")
    assert (done.returncode, done.stdout) == (0, "It is [redacted], before [redacted].\n")
    assert len(server.requests) == 2
    stored = b"".join(
        path.read_bytes() for path in agent.home.rglob("state/**/*") if path.is_file()
    )
    assert b"[redacted]" in stored
    assert FIRST_KEY.encode() not in stored
    assert SECOND_KEY.encode() not in stored


def test_a_key_that_stays_refused_is_not_tried_for_ever(agent, serve):
    server = serve(play=lambda request: HttpError(401, message="bad key"))
    configure(agent, f'[providers.openai]\napi_key_command = "echo {FIRST_KEY}"\n')
    done = agent.use(server, MODELS["responses"])("run", "x")
    assert done.returncode == 3
    assert len(server.requests) == 1, "the command prints the same key again"


def test_a_key_command_that_fails_says_why_and_does_not_show_itself(agent):
    script = agent.home / "key"
    script.write_text("#!/bin/sh\necho the vault is locked >&2\nexit 7\n")
    script.chmod(0o700)
    configure(agent, f'[providers.openai]\napi_key_command = "{script} --pin 4711"\n')
    done = agent("run", "x", "-m", MODELS["responses"])
    assert done.returncode == 3
    assert "it ended with 7: the vault is locked" in done.stderr
    assert "4711" not in done.stderr


def test_images_are_shown_to_the_model_that_sees(agent, serve):
    (agent.workspace / "plot.png").write_bytes(PNG)
    main = serve([Reply("", [Call("read", {"path": "plot.png"})])])
    seeing = serve([Reply("A plot.")])
    configure(
        agent,
        "[providers.openai-chat]\nimages = false\n"
        f'[models]\nvision = "lab/eyes"\n[providers.lab]\nbase_url = "{seeing.url}/v1"\n',
    )
    done = agent.use(main)("run", "what is in plot.png?")
    assert (done.returncode, done.stdout) == (0, "A plot.\n")
    assert base64.b64encode(PNG) in seeing.requests[0].raw
    assert switches(agent) == [(MODELS["chat_completions"], "lab/eyes", "images")]


@pytest.mark.parametrize("api", MODELS)
def test_a_parameter_that_the_user_drops_is_left_out(agent, serve, api):
    server = serve([Reply("Done.")] * 2, sessions=2)
    agent.use(server, "lab/open")
    address = server.url if api == "anthropic_messages" else f"{server.url}/v1"
    lab = f'[providers.lab]\napi = "{api}"\nbase_url = "{address}"\n'
    configure(agent, lab)
    assert agent("run", "x", "--set", "model.temperature=0.5").returncode == 0
    configure(agent, f'{lab}drop_params = ["temperature", "prompt_cache_key"]\n')
    assert agent("run", "x", "--set", "model.temperature=0.5").returncode == 0
    sent, spared = (request.body for request in server.requests)
    assert sent["temperature"] == 0.5
    assert set(sent) - set(spared) <= {"temperature", "prompt_cache_key"}
    assert "temperature" not in spared


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_model_without_tool_calls_works_with_tools_told_in_text(agent, serve, api, stream):
    def called(*commands: str) -> str:
        calls = ({"name": "bash", "arguments": {"command": command}} for command in commands)
        return "".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>\n" for call in calls)

    server = serve(
        [
            Reply("Let me see.\n" + called("echo one", "echo two")),
            Reply('<tool_call>{"name": "bash", "arguments": {"comm</tool_call>'),
            Reply(called("echo three")),
            Reply("Done."),
            Reply("Again."),
        ]
    )
    provider = MODELS[api].split("/")[0]
    configure(
        agent, f'[providers.{provider}]\ntool_format = "text"\nstream = {str(stream).lower()}\n'
    )
    done = agent.use(server, MODELS[api])("run", "x")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "<tool_call>" not in done.stderr
    bodies = [request.raw.decode() for request in server.requests]
    assert all('"tools":' not in body and "## bash\\n" in body for body in bodies)
    assert '<tool_result name=\\"bash\\">\\none\\n' in bodies[1]
    assert "two" in bodies[1]
    assert "JSON" in bodies[2].split("comm", 1)[1]
    assert "three" in bodies[3]
    assert agent("resume", "--last", "again").stdout == "Again.\n"


RUN_ECHO = '{"name": "bash", "arguments": {"command": "echo ran > out.txt"}}'
MARKED = f"<tool_call>\n{RUN_ECHO}\n</tool_call>"
XML = (
    "<function=bash>\n<parameter=command>\necho ran > out.txt\n</parameter>\n</function>\n"
    "</tool_call>"
)


def local(agent, server, tool_format: str = "auto", *, stream: bool = True) -> None:
    """`server` serves a local model."""
    agent.use(server, "lab/open")
    configure(
        agent,
        f'[providers.lab]\nbase_url = "{server.url}/v1"\ntool_format = "{tool_format}"\n'
        f"stream = {str(stream).lower()}\n",
    )


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "text",
    [MARKED, XML, f"[TOOL_CALLS][{RUN_ECHO}]", RUN_ECHO],
    ids=["hermes", "qwen", "mistral", "json"],
)
def test_a_call_that_a_server_passes_on_as_text_is_run(agent, serve, text, stream):
    said = "" if text == RUN_ECHO else "I write it.\n\n"
    server = serve(
        [Reply(f"<think>\nHm.\n</think>\n\n{said}{text}"), Reply("<think>So.</think>Done.")]
    )
    local(agent, server, stream=stream)
    done = agent("run", "x", "--approval", "yolo")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (agent.workspace / "out.txt").read_text() == "ran\n"
    assert "tool_call>" not in done.stderr
    assert "TOOL_CALLS" not in done.stderr
    first, second = (request.body for request in server.requests)
    assert second["tools"] == first["tools"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    call, result = second["messages"][-2:]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"]
    # The thinking goes back where it was: some models need it, and prompt caches too.
    assert call["content"] == f"<think>\nHm.\n</think>\n\n{said.strip()}"


@pytest.mark.parametrize("api", ["responses", "anthropic_messages"])
def test_a_call_as_text_is_run_whatever_wire_format_a_server_of_ones_own_speaks(agent, serve, api):
    server = serve([Reply(MARKED), Reply("Done.")])
    agent.use(server, "lab/open")
    address = server.url + ("/v1" if api == "responses" else "")
    configure(agent, f'[providers.lab]\nbase_url = "{address}"\napi = "{api}"\n')
    done = agent("run", "x", "--approval", "yolo")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (agent.workspace / "out.txt").read_text() == "ran\n"


@pytest.mark.parametrize("tool_format", ["auto", "text", "hermes"])
def test_a_call_that_an_answer_quotes_is_not_run(agent, serve, tool_format):
    answer = f"It is written so:\n\n```\n{MARKED}\n```\n\nor as {MARKED.replace(chr(10), '')} here."
    server = serve([Reply(answer)])
    local(agent, server, tool_format)
    done = agent("run", "x", "--approval", "yolo")
    assert (done.returncode, done.stdout) == (0, f"{answer}\n")
    assert not (agent.workspace / "out.txt").exists()


@pytest.mark.parametrize("tool_format", ["native", "mistral"])
def test_text_is_read_only_for_what_was_asked_for(agent, serve, tool_format):
    server = serve([Reply(MARKED)])
    local(agent, server, tool_format)
    assert agent("run", "x", "--approval", "yolo").stdout == f"{MARKED}\n"
    assert not (agent.workspace / "out.txt").exists()


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls}\n</tool_call>',
        "[TOOL_CALLS]search[ARGS]{}",
        '{"name": "search", "arguments": {}}',
    ],
    ids=["broken", "no such tool", "bare"],
)
def test_a_call_as_text_that_cant_be_run_is_told_to_the_model(agent, serve, text):
    server = serve([Reply(text), Reply("Done.")])
    local(agent, server)
    done = agent("run", "x")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert server.requests[1].body["messages"][-1]["role"] == "tool"


@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize("api", MODELS)
def test_effort_is_said_to_each_provider(agent, serve, api, effort):
    server = serve([Reply("Done.")])
    assert agent.use(server, MODELS[api])("run", "x", "--effort", effort).returncode == 0
    body = server.requests[0].body
    said = {
        "chat_completions": body.get("reasoning_effort"),
        "responses": body.get("reasoning", {}).get("effort"),
        "anthropic_messages": body.get("output_config", {}).get("effort"),
    }
    always_thinks = api == "anthropic_messages"
    assert said[api] == ("low" if always_thinks and effort == "none" else effort)


def test_an_effort_that_is_none_is_refused(agent):
    done = agent("run", "x", "--effort", "extreme")
    assert done.returncode == 2
    assert "none, minimal, low, medium, high, xhigh, max" in done.stderr


@pytest.mark.parametrize("api", ["responses", "anthropic_messages"])
def test_reasoning_goes_back_to_the_model_that_wrote_it_and_to_no_other(agent, serve, api):
    provider, _, model = MODELS[api].partition("/")
    calls = [Call("bash", {"command": "echo hi"})]
    server = serve(
        [
            Reply("", calls, reasoning="Hm, a secret thought."),
            HttpError(503),
            Reply("", calls, reasoning="Another."),
            Reply("Done."),
        ],
        sessions=2,
    )
    agent.use(server, MODELS[api])
    done = agent(
        "run", "x", "--effort", "low", "--set", "llm.retries=0",
        "--set", f'model.fallback=["{provider}/other"]',
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    kept = [_reasoning(request) for request in server.requests]
    assert kept == [0, 1, 0, 1]
    assert [request.body["model"] for request in server.requests] == [
        model,
        model,
        "other",
        "other",
    ]


def _reasoning(request: Recorded) -> int:
    """How many pieces of opaque reasoning go back."""
    return request.raw.count(b'"encrypted_content":') + request.raw.count(b'"signature":')
