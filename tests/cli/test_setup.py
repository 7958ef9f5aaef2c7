"""First contact: no key, a terminal, and a person who answers a few questions."""

from __future__ import annotations

import json
import stat
import tomllib

import pexpect
import pytest

from agentcli.cli.commands.models import table
from agentcli.cli.provider_probe import model_facts
from agentcli.llm.catalog import Catalog
from tests.conftest import MODELS
from tests.server import HttpError, Reply

GOOD, BAD = "sk-good-0123456789abcdef", "sk-bad-0123456789abcdef"


def answer(child: pexpect.spawn, question: str, text: str) -> str:
    """What was shown before the question."""
    child.expect_exact(question)
    child.sendline(text)
    return child.before


def ended(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_a_run_without_a_key_asks_for_one_and_goes_on(agent, serve, at_terminal):
    server = serve([Reply("Hello.")], models=["gpt-5.5", "gpt-5.5-mini"], keys=[GOOD])
    agent.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    child = at_terminal("run", "hi")
    menu = answer(child, "leave: ", "2")
    assert "1  Anthropic" in menu
    answer(child, "goes back): ", BAD)
    assert "the key is refused" in answer(child, "goes back): ", GOOD)
    shown = answer(child, "lists them): ", "mini")
    assert "the key works: 2 models" in shown
    assert GOOD not in shown
    child.expect_exact("Hello.")
    assert ended(child) == 0
    folder = agent.home / ".config" / "agent"
    keys, settings = folder / "keys.toml", folder / "config.toml"
    assert tomllib.loads(keys.read_text()) == {"OPENAI_API_KEY": GOOD}
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert tomllib.loads(settings.read_text()) == {"model": {"name": "openai/gpt-5.5-mini"}}
    assert GOOD not in agent("config", "show").stdout


def test_a_conversation_begins_with_the_same_questions(agent, serve, at_terminal):
    server = serve([Reply("Hello to you.")], models=["gpt-5.5"], keys=[GOOD])
    agent.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    child = at_terminal("say hello")
    answer(child, "leave: ", "2")
    answer(child, "goes back): ", GOOD)
    answer(child, "lists them): ", "")
    child.expect_exact("Hello to you.")
    child.send("\x04")
    assert ended(child) == 0


def test_a_local_server_is_found_and_the_person_chooses_its_model(agent, serve, at_terminal):
    caps = {"chat_template_caps": {"supports_tools": False}}
    server = serve(keys=(), models=["qwen3-coder:30b", "gemma3:12b"], pages={"/props": caps})
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'# mine\n[providers.llamacpp]\nbase_url = "{server.url}/v1" # here\n')
    child = at_terminal("setup")
    assert "runs on this machine, 2 models" in answer(child, "leave: ", "llamacpp")
    assert "2  gemma3:12b" in answer(child, "number or name): ", "2")
    assert ended(child) == 0
    assert "the chat template of this model does not know tools" in child.before
    assert settings.read_text().startswith("# mine\n[providers.llamacpp]\n")
    assert "# here" in settings.read_text()
    assert tomllib.loads(settings.read_text())["model"]["name"] == "llamacpp/gemma3:12b"


def test_a_server_of_ones_own_is_set_up_too(agent, serve, at_terminal):
    server = serve([Reply("Hello.")], keys=[GOOD], models=["house-model", "other"])
    child = at_terminal("run", "hi")
    answer(child, "leave: ", "another")
    answer(child, "/v1: ", f"{server.url}/v1")
    answer(child, "A name for it", "house")
    answer(child, "need a key?", "y")
    answer(child, "house key", GOOD)
    answer(child, "number or name): ", "house")
    child.expect_exact("Hello.")
    assert ended(child) == 0
    settings = tomllib.loads((agent.home / ".config" / "agent" / "config.toml").read_text())
    assert settings["model"]["name"] == "house/house-model"
    assert settings["providers"]["house"]["api_key_env"] == "HOUSE_API_KEY"


def test_only_the_key_is_asked_for_where_the_model_is_named(agent, serve, at_terminal):
    server = serve([Reply("Hello.")], keys=[GOOD], models=["gpt-5.5"])
    agent.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    child = at_terminal("run", "-m", "openai/gpt-5.5", "hi")
    assert "no key for openai" in answer(child, "goes back): ", GOOD)
    child.expect_exact("Hello.")
    assert ended(child) == 0


def test_a_wrong_setting_does_not_stop_the_set_up_that_mends_it(agent, serve, at_terminal):
    server = serve(models=["house-model"], keys=())
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[agent]\nmax_turn = 3\n")
    child = at_terminal("setup")
    child.expect_exact("ignored:")
    answer(child, "leave: ", "another")
    answer(child, "/v1: ", "127.0.0.1:80")
    assert "is not the address of a server" in answer(child, "leave: ", "another")
    answer(child, "/v1: ", f"{server.url}/v1")
    answer(child, "[local]: ", "")
    answer(child, "[y/N] ", "")
    answer(child, "name): ", "")
    assert ended(child) == 0
    settings = tomllib.loads((folder / "config.toml").read_text())
    assert settings["model"] == {"name": "local/house-model"}


def test_set_up_asks_nothing_where_nothing_could_be_kept(agent, at_terminal):
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[agent\n")
    child = at_terminal("setup")
    assert ended(child) == 3
    assert "is not valid TOML" in child.before
    assert "leave: " not in child.before


def test_whoever_leaves_is_told_what_else_to_do(agent, at_terminal):
    child = at_terminal("run", "hi")
    answer(child, "leave: ", "")
    child.expect_exact("or set ANTHROPIC_API_KEY")
    assert ended(child) == 3
    child = at_terminal("setup")
    child.expect_exact("leave: ")
    child.sendintr()
    assert ended(child) == 130


def test_without_a_terminal_nothing_is_at_terminal(agent):
    done = agent("run", "hi")
    assert (done.returncode, "agent setup" in done.stderr) == (3, True)
    assert agent("setup").returncode == 2


def test_kept_keys_that_others_may_read_are_not_used(agent):
    keys = agent.home / ".config" / "agent" / "keys.toml"
    keys.parent.mkdir(parents=True)
    keys.write_text(f'ANTHROPIC_API_KEY = "{GOOD}"\n')
    keys.chmod(0o644)
    done = agent("run", "hi")
    assert done.returncode == 3
    assert f"chmod 600 {keys}" in done.stderr
    keys.chmod(0o600)
    agent.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    assert f"ANTHROPIC_API_KEY in {keys}" in agent("doctor").stdout


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


def test_windows_prices_and_the_shell_are_told(agent, serve):
    only_openai(agent, serve(models=["gpt-5.5", "unheard-of"]))
    found = checks(agent)
    said = "openai/gpt-5.5 (1M tokens of context, $5 in and $30 out per million)"
    assert (found["model"]["status"], found["model"]["detail"]) == ("ok", said)
    assert found["shell"]["status"] == "ok"
    assert found["shell"]["detail"].startswith("keeps its state; runs as ")
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
