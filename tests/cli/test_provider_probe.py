"""`agent models` and `agent doctor`: what can be reached, what it costs, what each key answers."""

from __future__ import annotations

import json

import pytest

from agentcli.cli.commands.models import line
from agentcli.cli.provider_probe import model_facts
from agentcli.llm.catalog import Catalog
from tests.conftest import MODELS
from tests.server import HttpError, Reply


def checks(agent, *flags: str) -> dict[str, dict]:
    found = json.loads(agent("doctor", "--json", *flags).stdout)
    return {check["name"]: check for check in found}


def only_openai(agent, server) -> None:
    agent.use(server, MODELS["responses"])
    del agent.env["ANTHROPIC_API_KEY"]


def test_columns_fit_a_terminal():
    catalog = Catalog({})
    row = line("anthropic/claude-sonnet-5-5", model_facts(catalog, "anthropic/claude-sonnet-5-5"))
    assert row.split() == ["anthropic/claude-sonnet-5-5", "1M", "2", "10"]
    assert line("ollama/qwen", model_facts(catalog, "ollama/qwen")).split()[1:] == ["-", "-", "-"]
    assert len(row) <= 80


def test_programs_are_told_windows_and_prices(agent, serve):
    only_openai(agent, serve(models=["gpt-5.5", "unheard-of"]))
    (openai,) = json.loads(agent("models", "--json").stdout)
    assert openai["models"] == ["gpt-5.5", "unheard-of"]
    assert openai["standing"] == "works"
    assert openai["known"]["gpt-5.5"] == {
        "context_tokens": 1_000_000,
        "input_usd_per_million": 5.0,
        "output_usd_per_million": 30.0,
    }
    assert set(openai["known"]["unheard-of"].values()) == {None}


def test_a_key_that_is_refused_is_told_from_a_server_that_is_not_there(agent, serve):
    only_openai(agent, serve(keys=["another"]))
    refused = checks(agent)["openai"]
    assert refused["status"] == "warning"
    assert refused["detail"].startswith("the key is refused: ")
    assert "check the key" in refused["hint"]
    agent.env["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    gone = checks(agent)["openai"]
    assert "nothing listens" in gone["detail"]
    assert "is the server up" in gone["hint"]


def test_without_a_network_the_key_is_not_blamed(agent):
    agent.env |= {
        "ANTHROPIC_API_KEY": "sk-ant-test-0123456789abcdef",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    done = agent("models")
    assert done.returncode == 4
    assert "is the network up?" in done.stderr
    assert "set a key" not in done.stderr


def test_a_local_server_that_is_not_running_is_not_waited_for(agent):
    done = agent(
        "run", "x", "-m", "ollama/qwen", "--set", "providers.ollama.base_url=http://127.0.0.1:9"
    )
    assert done.returncode == 4
    assert "nothing listens at http://127.0.0.1:9" in done.stderr
    assert "start it: ollama serve" in done.stderr
    assert "retry" not in done.stderr


def test_the_model_is_named_with_its_window_and_price(agent, serve):
    only_openai(agent, serve(models=["gpt-5.5"]))
    model = checks(agent)["model"]
    said = "openai/gpt-5.5 (1M tokens of context, $5 in and $30 out per million)"
    assert (model["status"], model["detail"]) == ("ok", said)


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (Reply("OK."), "ok", ", answers"),
        (HttpError(429, "insufficient_quota"), "failed", "the account has no credit: "),
        (HttpError(503), "failed", "answers 503"),
    ],
    ids=["works", "no credit", "fails"],
)
def test_only_asking_tells_whether_there_is_credit(agent, serve, answer, status, said):
    server = serve([answer])
    only_openai(agent, server)
    assert checks(agent)["model"]["status"] == "ok"
    assert server.requests == []
    model = checks(agent, "--ask")["model"]
    assert model["status"] == status
    assert said in model["detail"]
    assert len(server.requests) == 1


def test_the_shell_is_tried(agent, serve):
    only_openai(agent, serve(models=["gpt-5.5"]))
    shell = checks(agent)["shell"]
    assert shell["status"] == "ok"
    assert shell["detail"].startswith("keeps its state; runs as ")
