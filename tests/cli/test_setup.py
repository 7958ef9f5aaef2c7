"""First contact: no key, a terminal, and a person who answers a few questions."""

from __future__ import annotations

import stat
import tomllib

import pexpect
import pytest

from tests.server import Reply

GOOD, BAD = "sk-good-0123456789abcdef", "sk-bad-0123456789abcdef"


@pytest.fixture
def asked(agent):
    """Start `agent` in a pty."""
    running = []

    def start(*arguments: str) -> pexpect.spawn:
        child = agent.spawn(*arguments)
        running.append(child)
        return child

    yield start
    for child in running:
        child.close(force=True)


def answer(child: pexpect.spawn, question: str, text: str) -> str:
    """What was shown before the question."""
    child.expect_exact(question)
    child.sendline(text)
    return child.before


def ended(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_a_run_without_a_key_asks_for_one_and_goes_on(agent, serve, asked):
    server = serve([Reply("Hello.")], models=["gpt-5.5", "gpt-5.5-mini"], keys=[GOOD])
    agent.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    child = asked("run", "hi")
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


def test_a_conversation_begins_with_the_same_questions(agent, serve, asked):
    server = serve([Reply("Hello to you.")], models=["gpt-5.5"], keys=[GOOD])
    agent.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    child = asked("say hello")
    answer(child, "leave: ", "2")
    answer(child, "goes back): ", GOOD)
    answer(child, "lists them): ", "")
    child.expect_exact("Hello to you.")
    child.send("\x04")
    assert ended(child) == 0


def test_a_local_server_is_found_and_the_person_chooses_its_model(agent, serve, asked):
    caps = {"chat_template_caps": {"supports_tools": False}}
    server = serve(keys=(), models=["qwen3-coder:30b", "gemma3:12b"], pages={"/props": caps})
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'# mine\n[providers.llamacpp]\nbase_url = "{server.url}/v1" # here\n')
    child = asked("setup")
    assert "runs on this machine, 2 models" in answer(child, "leave: ", "llamacpp")
    assert "2  gemma3:12b" in answer(child, "number or name): ", "2")
    assert ended(child) == 0
    assert "the chat template of this model does not know tools" in child.before
    assert settings.read_text().startswith("# mine\n[providers.llamacpp]\n")
    assert "# here" in settings.read_text()
    assert tomllib.loads(settings.read_text())["model"]["name"] == "llamacpp/gemma3:12b"


def test_a_server_of_ones_own_is_set_up_too(agent, serve, asked):
    server = serve([Reply("Hello.")], keys=[GOOD], models=["house-model", "other"])
    child = asked("run", "hi")
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


def test_only_the_key_is_asked_for_where_the_model_is_named(agent, serve, asked):
    server = serve([Reply("Hello.")], keys=[GOOD], models=["gpt-5.5"])
    agent.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
    child = asked("run", "-m", "openai/gpt-5.5", "hi")
    assert "no key for openai" in answer(child, "goes back): ", GOOD)
    child.expect_exact("Hello.")
    assert ended(child) == 0


def test_a_wrong_setting_does_not_stop_the_set_up_that_mends_it(agent, serve, asked):
    server = serve(models=["house-model"], keys=())
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[agent]\nmax_turn = 3\n")
    child = asked("setup")
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


def test_set_up_asks_nothing_where_nothing_could_be_kept(agent, asked):
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[agent\n")
    child = asked("setup")
    assert ended(child) == 3
    assert "is not valid TOML" in child.before
    assert "leave: " not in child.before


def test_whoever_leaves_is_told_what_else_to_do(agent, asked):
    child = asked("run", "hi")
    answer(child, "leave: ", "")
    child.expect_exact("or set ANTHROPIC_API_KEY")
    assert ended(child) == 3
    child = asked("setup")
    child.expect_exact("leave: ")
    child.sendintr()
    assert ended(child) == 130


def test_without_a_terminal_nothing_is_asked(agent):
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
