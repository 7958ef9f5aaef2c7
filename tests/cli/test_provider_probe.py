"""`agent models` and `agent doctor`: what can be reached, what it costs, what each key answers."""

from __future__ import annotations

import json

import pexpect
import pytest

from agentcli.cli.commands.models import table
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


@pytest.fixture
def small(agent, serve) -> str:
    """The settings of a llama.cpp server that has loaded a model without a template for tools."""
    props = {
        "default_generation_settings": {"n_ctx": 4_096},
        "chat_template_caps": {"supports_tools": False},
    }
    server = serve(keys=(), models=["smollm2"], pages={"/props": props})
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)
    text = f'[providers.llamacpp]\nbase_url = "{server.url}/v1"\n'
    (folder / "config.toml").write_text(text)
    return text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_columns_fit_a_terminal(width):
    catalog = Catalog({})
    names = ["anthropic/claude-sonnet-5-5", "ollama/qwen", f"openrouter/{'long-' * 12}name"]
    rows = list(table({name: model_facts(catalog, name) for name in names}, width))
    assert [row.split() for row in rows[:3]] == [
        ["model", "context", "$", "in", "$", "out"],
        ["anthropic/claude-sonnet-5-5", "1M", "2", "10"],
        ["ollama/qwen", "-", "-", "-"],
    ]
    known = [row for row in rows if row != names[2]]
    assert len({len(row) for row in known}) == 1
    assert len(known[0]) <= width
    assert rows[-1].split()[-3:] == ["-", "-", "-"]


def test_rows_that_are_too_long_go_on_below_the_first(agent, small):
    agent.env["OPENAI_API_KEY"] = "sk-test-0123456789abcdef"
    agent.env["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    child = agent.spawn("doctor", columns=60)
    child.expect(pexpect.EOF)
    rows = child.before.splitlines()
    assert [row for row in rows if len(row) > 60 and len(row.split()) > 3] == []
    assert all(row[:10].strip() in ("", "ok", "warning", "failed") for row in rows)
    child = agent.spawn("models", columns=60)
    child.expect(pexpect.EOF)
    shown = [row.split() for row in child.before.splitlines()]
    assert ["llamacpp/smollm2", "4.1k", "-", "-"] in shown


def test_what_a_local_server_says_of_its_models_is_told(agent, small):
    found = checks(agent)
    assert found["llamacpp"]["detail"] == (
        "answers, 1 model; its chat template does not know tools"
    )
    model = found["model"]
    assert model["status"] == "warning"
    assert model["detail"] == "llamacpp/smollm2 (4.1k tokens of context, price unknown)"
    assert 'tool_format = "text"' in model["hint"]
    (llamacpp,) = json.loads(agent("models", "--json").stdout)
    assert llamacpp["known"]["smollm2"]["context_tokens"] == 4_096
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.write_text(f'{small}tool_format = "text"\n')
    chosen = checks(agent)
    assert (chosen["model"]["status"], chosen["model"]["hint"]) == ("ok", "")
    assert chosen["llamacpp"]["detail"] == "answers, 1 model"


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
