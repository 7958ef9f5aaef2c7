"""One session with the models of five providers in turn, each of which has rules of its own."""

from __future__ import annotations

import signal

import pytest

from agentcli.llm.provider import built_in
from tests.cli.test_run import wait_for
from tests.server import Call, ModelServer, Reply
from tests.server.plan import KEY
from tests.workspace.test_images import png

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
