"""The commands around `run`: demo, sessions, config, models, doctor, help."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys

import pytest

from tests.conftest import MODELS
from tests.server import Call, HttpError, Reply


def test_the_demo_turns_a_red_test_green_without_key_or_network(agent, tmp_path):
    folder = tmp_path / "demo"
    done = agent("demo", "--dir", str(folder))
    assert done.returncode == 0, done.stderr
    for word in ("scripted", "sandbox", "tests: OK", "agent setup"):
        assert word in done.stderr
    assert "+    return re.findall" in done.stderr
    assert done.stdout.startswith("Fixed:")
    assert (
        subprocess.run(["python3", "-m", "unittest"], cwd=folder, capture_output=True).returncode
        == 0
    )
    resumed = agent("resume", "--last", "now add a test for rock'n'roll", cwd=folder)
    assert resumed.stdout.startswith("Added"), resumed.stderr
    assert "OK" in resumed.stderr
    again = agent("demo", "--dir", str(folder))
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_the_demo_does_not_have_to_meet_what_the_user_requires_elsewhere(agent, tmp_path):
    settings = agent.home / "settings.toml"
    settings.write_text('[run]\ncheck = "false"\nrequire_evidence = "tests"\n')
    agent.env["AGENT_CONFIG"] = str(settings)
    done = agent("demo", "--dir", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    assert "check $" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else may look into another's folder")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_what_listens_in_the_folder_of_another_user_is_no_obstacle(agent, tmp_path):
    nobody = 65534
    (tmp_path / "its").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "its" / "socket"))
        listener.listen()
        os.chown(tmp_path / "its", nobody, nobody)
        assert "ok        sandbox tried out" in agent("doctor").stdout


def test_a_script_of_any_providers_replies_plays(agent, tmp_path):
    replies = [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "bash",
                    "input": {"command": "echo hi"},
                }
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 5, "output_tokens": 5},
        },
        {
            "id": "resp_1",
            "object": "response",
            "status": "completed",
            "model": "m",
            "output": [
                {
                    "type": "message",
                    "id": "msg_2",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Played."}],
                }
            ],
        },
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    done = agent("run", "x", "-m", f"scripted/{script}")
    assert done.stdout == "Played.\n", done.stderr
    script.write_text('{"no": "reply"}')
    assert agent("run", "x", "-m", f"scripted/{script}").returncode == 3


def test_sessions_are_listed_and_shown(agent, serve):
    agent.use(serve([Reply("Look.", [Call("bash", {"command": "echo hi"})]), Reply("Done.")]))
    agent("run", "do it", "--name", "first")
    (row,) = json.loads(agent("sessions", "list", "--json").stdout)
    assert (row["name"], row["state"], row["steps"], row["title"]) == (
        "first",
        "finished",
        2,
        "do it",
    )
    assert row["cost_usd"] > 0
    assert "first: do it" in agent("sessions", "list").stdout
    shown = agent("sessions", "show", "first").stdout
    for text in ("do it", "Look.", "echo hi", "Done.", "2 steps"):
        assert text in shown
    events = json.loads(agent("sessions", "show", "first", "--json").stdout)["events"]
    assert [event["id"] for event in events] == list(range(len(events)))
    elsewhere = agent("sessions", "list", cwd=agent.home)
    assert elsewhere.stdout == ""
    assert "do it" in agent("sessions", "list", "--all", cwd=agent.home).stdout


def test_settings_are_shown_with_their_origin(agent):
    agent.env["AGENT_MODEL"] = "openai/gpt-5.5"
    shown = agent("config", "show", "--origin").stdout
    assert 'model.name = "openai/gpt-5.5"' in shown
    assert "# environment" in shown
    values = json.loads(agent("config", "show", "--json").stdout)
    assert values["agent.max_turns"] == {"value": 100, "origin": "default"}
    assert agent("config", "path").stdout.strip().endswith(".config/agent/config.toml")


SETTINGS = """\
# mine
[agent]
max_turns = 30  # was 20

[providers.lab]  # at work
base_url = "http://127.0.0.1:1/v1"
"""


def test_a_setting_is_set_and_comments_stay(agent):
    path = agent.home / "config.toml"
    path.write_text(SETTINGS)
    agent.env["AGENT_CONFIG"] = str(path)
    for key, value in (
        ("agent.max_turns", "50"),
        ("model.name", "sonnet"),
        ("providers.lab.api_key_env", "LAB_KEY"),
        ("security.allow", '["bash(git status)"]'),
    ):
        assert agent("config", "set", key, value).returncode == 0
    assert path.read_text() == SETTINGS.replace("30", "50").rstrip() + (
        '\napi_key_env = "LAB_KEY"\n\n[model]\nname = "anthropic/claude-sonnet-5-5"\n'
        '\n[security]\nallow = ["bash(git status)"]\n'
    )
    assert agent("config", "set", "--project", "agent.max_turns", "10").returncode == 0
    assert "agent.max_turns = 10" in agent("config", "show").stdout
    told = agent("config", "set", "--project", "model.effort", "low").stderr
    assert "agent trust" in told


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("agent.max_turn", "5", "did you mean agent.max_turns?"),
        ("agent.max_turns", "many", "must be a whole number"),
        ("agent.approval", "sometimes", "'ask', 'auto-edit'"),
        ("model.name", "sonett", "did you mean sonnet?"),
        ("security.deny", "bash(x)", "must be a list"),
        ("security.allow", '["(git)"]', "is not a rule"),
        ("hooks.Stop", '[{ matcher = "x" }]', "command is missing"),
    ],
)
def test_what_is_no_setting_is_not_set(agent, key, value, said):
    path = agent.home / "config.toml"
    path.write_text(SETTINGS)
    agent.env["AGENT_CONFIG"] = str(path)
    done = agent("config", "set", key, value)
    assert (done.returncode, path.read_text()) == (3, SETTINGS)
    assert said in done.stderr


def test_a_price_is_set_one_value_after_another(agent):
    agent.env["AGENT_CONFIG"] = str(agent.home / "config.toml")
    first = agent("config", "set", "prices.lab/gpt-5.5.input", "2")
    assert first.returncode == 0
    assert "prices.lab/gpt-5.5.output is missing" in first.stderr
    wrong = agent("config", "set", "prices.lab/gpt-5.5.output", "much")
    assert (wrong.returncode, "must be a number" in wrong.stderr) == (3, True)
    assert agent("config", "set", "prices.lab/gpt-5.5.output", "8").stderr == ""


def test_a_wrong_setting_stops_a_run_and_nothing_that_helps_to_mend_it(agent):
    settings = agent.home / "config.toml"
    settings.write_text("[agent]\nmax_turn = 3\n")
    agent.env["AGENT_CONFIG"] = str(settings)
    run = agent("run", "x")
    assert (run.returncode, "did you mean agent.max_turns?" in run.stderr) == (3, True)
    shown = agent("config", "show")
    assert "agent.max_turns = 100" in shown.stdout
    assert "did you mean agent.max_turns?" in shown.stderr
    checks = json.loads(agent("doctor", "--json").stdout)
    settings_check = next(check for check in checks if check["name"] == "settings")
    assert settings_check["status"] == "failed"
    models = agent("models")
    assert "ignored" in models.stderr
    assert "no key is set" in models.stderr
    assert agent("--help").returncode == 0


@pytest.mark.parametrize("api", ["responses", "anthropic_messages"])
def test_models_that_can_be_reached_are_listed(agent, serve, api):
    agent.use(serve(models=["model-a", "model-b"]), MODELS[api])
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        if variable.lower()[:6] != MODELS[api][:6]:
            del agent.env[variable]
    listed = agent("models").stdout.split()
    provider = MODELS[api].split("/")[0]
    assert listed == [f"{provider}/model-a", f"{provider}/model-b"]


def test_a_local_server_is_found_and_used_without_configuration(agent, serve):
    server = serve([Reply("Local.")], keys=(), models=["qwen"])
    agent.env["XDG_CONFIG_HOME"] = str(agent.home)
    (agent.home / "agent").mkdir()
    (agent.home / "agent" / "config.toml").write_text(
        f'[providers.ollama]\nbase_url = "{server.url}/v1"\n'
        '[providers.lmstudio]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[providers.vllm]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[providers.llamacpp]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    done = agent("run", "x")
    assert done.stdout == "Local.\n", done.stderr
    assert server.requests[-1].body["model"] == "qwen"
    assert "price unknown" in done.stderr


def test_the_doctor_names_what_is_missing(agent, serve):
    alone = agent("doctor")
    assert alone.returncode == 3
    assert "no model to work with" in alone.stdout
    agent.use(serve(models=["gpt-5.5"]), MODELS["responses"])
    del agent.env["ANTHROPIC_API_KEY"]
    done = agent("doctor")
    assert done.returncode == 0, done.stdout
    assert "openai: answers, 1 model" in done.stdout
    checks = {check["name"]: check for check in json.loads(agent("doctor", "--json").stdout)}
    assert checks["sandbox"]["status"] != "failed"
    agent.use(serve([], keys=["sk-other"]), MODELS["responses"])
    broken = agent("doctor")
    assert broken.returncode == 3
    assert "401" in broken.stdout


def test_the_doctor_works_where_nothing_can_be_written(agent, serve):
    agent.use(serve(models=["gpt-5.5"]), MODELS["responses"])
    (agent.home / "file").write_text("")
    agent.env["AGENT_HOME"] = str(agent.home / "file/state")
    done = agent("doctor", "--json")
    assert done.returncode == 3, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert checks["storage"]["status"] == "failed"
    assert "AGENT_HOME" in checks["storage"]["hint"]
    assert {check["name"] for check in checks.values() if check["status"] == "failed"} == {
        "storage"
    }
    agent.env["TMPDIR"] = agent.env["AGENT_HOME"]
    assert agent("doctor").returncode == 3


def test_a_model_server_of_ones_own(agent, serve, tmp_path):
    server = serve([HttpError(500, "server_error", "once"), Reply("Mine.")])
    config = tmp_path / "config.toml"
    config.write_text(
        '[model]\nname = "lab/big"\n[llm]\nretry_base_s = 0\n'
        f'[providers.lab]\nbase_url = "{server.url}/v1"\napi = "responses"\n'
        'api_key_command = "echo sk-from-a-command"\nheaders = { X-Team = "tools" }\n'
        '[prices."lab/big"]\ninput = 1000\noutput = 1000\n'
    )
    agent.env["AGENT_CONFIG"] = str(config)
    done = agent("run", "x")
    assert done.stdout == "Mine.\n", done.stderr
    assert server.requests[0].api == "responses"
    headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
    assert headers["authorization"] == "Bearer sk-from-a-command"
    assert headers["x-team"] == "tools"
    assert "$" in done.stderr


@pytest.mark.parametrize("command", [[], ["run"], ["resume"], ["sessions"], ["config"], ["doctor"]])
def test_every_command_has_help(agent, command):
    done = agent(*command, "--help")
    assert done.returncode == 0
    assert "Usage: agent" in done.stdout


_MAIN = "from agentcli.cli import main; main.main()"


@pytest.mark.parametrize("group", ["sessions", "mcp", "config", "policy", "skills", "agents"])
def test_the_help_of_a_group_loads_none_of_its_commands(agent, group):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _MAIN, group, "--help"],
        env=agent.env,
        cwd=agent.workspace,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "agentcli.cli.command_tree" in loaded
    of_commands = {f"cli.commands.{group}", "cli.command", "ui.screen", "app.agent_builder"}
    assert not loaded & {f"agentcli.{module}" for module in of_commands}
    own = importlib.import_module(f"agentcli.cli.commands.{group}").COMMAND
    listed = {line.split()[0]: line.split(None, 1)[1] for line in _listed(done.stdout)}
    assert set(listed) == set(own)
    for name, text in listed.items():
        assert (own[name].__doc__ or "").startswith(text.rstrip(".")[:40])


def _listed(help_text: str) -> list[str]:
    """Return the lines of the commands, without those that only continue one."""
    lines = help_text.partition("Commands:\n")[2].splitlines()
    return [line for line in lines if line[:2] == "  " and line[2:3].strip()]


def test_help_is_a_command_too(agent):
    assert agent("help", "sessions", "list").stdout == agent("sessions", "list", "--help").stdout
    assert agent("help").stdout == agent("--help").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sesions", "list"], "did you mean agent sessions?"),
        (["sessions", "lst"], "did you mean agent sessions list?"),
        (["help", "docter"], "did you mean agent doctor?"),
        (["fix", "the", "test"], 'agent run "fix the test"'),
        (["it's $HOME"], "agent run 'it'\"'\"'s $HOME'"),
    ],
)
def test_an_unknown_command_is_told_what_was_meant(agent, words, said):
    done = agent(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_schema_covers_every_kind_of_line(agent):
    schema = json.loads(agent("schema").stdout)
    kinds = json.dumps(schema)
    for kind in ("init", "message", "tool_use", "tool_result", "state", "notice", "result"):
        assert f'"{kind}"' in kinds


def test_the_version(agent):
    assert agent("--version").stdout.startswith("agent 0.")
    assert agent("-V").stdout == agent("--version").stdout
