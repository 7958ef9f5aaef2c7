"""What a shell offers for a line that is not finished."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import LIMIT_S
from tests.server import Reply


def offered(agent, line: str) -> tuple[str, list[str]]:
    """What the words are, and the words."""
    done = agent("__complete", "fish", line)
    kind, *words = done.stdout.splitlines()
    return kind, [word.partition("\t")[0] for word in words]


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("agent con", "words", ["context", "config"]),
        ("agent config s", "words", ["show", "set"]),
        ("agent help doc", "words", ["doctor"]),
        ("agent run --max-t", "words", ["--max-turns", "--max-time"]),
        ("agent run --effort m", "words", ["minimal", "medium", "max"]),
        ("agent run --effort=l", "words", ["--effort=low"]),
        ("agent -", "words", ["--continue", "--model"]),
        ("agent config set agent.max_tu", "words", ["agent.max_turns"]),
        ("agent config set providers.ollama.base", "words", ["providers.ollama.base_url"]),
        ("agent run --set agent.max_tu", "joined", ["agent.max_turns="]),
        ("agent run -m openai/gpt-5.5", "words", ["openai/gpt-5.5"]),
        ("agent run -C ", "folders", []),
        ("agent run -o ", "files", []),
        ("agent run 'it is", "words", []),
        ("agent completion ", "words", ["bash", "zsh", "fish"]),
        ("agent nonsense ", "words", ["run"]),
    ],
)
def test_what_fits_is_offered(agent, line, kind, words):
    agent.env["OPENAI_API_KEY"] = "sk-test-0123456789abcdef"
    found = offered(agent, line)
    assert found[0] == kind
    assert set(words) <= set(found[1])
    assert bool(words) == bool(found[1])


def test_sessions_of_this_folder_are_offered_by_name_else_by_id(agent, serve):
    agent.use(serve([Reply("Done."), Reply("Done.")], sessions=2))
    agent("run", "first", "--name", "parser")
    agent("run", "second")
    rows = agent("sessions", "list", "--json").stdout
    (unnamed,) = (row["session_id"] for row in json.loads(rows) if not row["name"])
    assert offered(agent, "agent resume ") == ("words", [unnamed, "parser"])
    assert "first" in agent("__complete", "zsh", "agent sessions show p").stdout


def test_a_key_that_is_pressed_loads_no_sdk(agent):
    offered(agent, "agent ")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *agent.command[1:], "__complete", "bash", "agent r"],
        env=agent.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert "resume" in done.stdout
    for module in ("openai", "anthropic", "pydantic", "typer", "rich"):
        assert f"| {module}\n" not in done.stderr.replace("|   ", "| ")


def test_bash_completes_with_the_script_that_is_installed(agent):
    installed = agent("completion", "bash", "--install")
    script = agent.home / ".local" / "share" / "bash-completion" / "completions" / "agent"
    assert str(script) in installed.stdout
    command = " ".join(agent.command)
    line = "agent run --set agent.max_tur"
    lines = f"""
    agent() {{ {command} "$@"; }}
    source '{script}'
    COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDBREAKS=' =:'
    _agent 2>/dev/null
    printf '%s' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", lines], env=agent.environment, capture_output=True, text=True
    )
    assert done.stdout == "agent.max_turns="
    for shell in ("zsh", "fish"):
        assert "__complete" in agent("completion", shell).stdout
