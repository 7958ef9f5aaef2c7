"""What providers refuse or demand, by the binary: a session goes on, and the person is told."""

from __future__ import annotations

import json

import pytest

from agentcli.llm.provider import address_variable, built_in
from tests.server import Call, HttpError, ModelServer, Recorded, Reply
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
    server = serve([NO_OPTIONS, Reply("Done."), Reply("Again.")], sessions=3)
    agent.use(server)
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
    server = serve([thinks, UNVERIFIED, Reply("Done."), Reply("Still.")], sessions=3)
    agent.use(server, "openai/gpt-5.5")
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
    server = serve([refusal, Reply("I can't see it."), Reply("Still.")], sessions=3)
    agent.use(server)
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
    done = agent("compact", agent.sessions[0].name)
    assert done.returncode == 0, done.stderr
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
