"""Standard streams and surroundings that are not as they should be."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.conftest import LIMIT_S
from tests.server import Call, Reply


@pytest.fixture
def shell(agent):
    """Run a line of bash in which `agent` is the agent."""
    command = " ".join(agent.command)

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", f'agent() {{ {command} "$@"; }}; {line}'],
            cwd=agent.workspace,
            env=agent.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    return run


@pytest.mark.parametrize(
    ("line", "code", "out"),
    [
        ("agent run hi <&-", 0, "Done.\n"),
        ("agent run hi >&-", 141, ""),
        ("agent run hi --json >&-", 141, ""),
        ("agent run hi --output-format json >&-", 141, ""),
        ("agent run hi | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("agent run hi --output-format json | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("agent run hi -q | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("agent run hi >&- 2>&-", 141, ""),
        ("agent run hi <&- >&- 2>&-", 141, ""),
        ("agent run hi -o answer >&-; cat answer; exit 0", 0, "Done.\n"),
        ("agent run hi 2>&-", 0, "Done.\n"),
        ("agent run hi 2>/dev/full", 0, "Done.\n"),
        ("agent run hi >/dev/full", 1, ""),
        ("PYTHONIOENCODING=ascii agent run hi", 0, "Done.\n"),
        ("agent sessions nothing 2>&-", 2, ""),
        ("agent config show | true; exit ${PIPESTATUS[0]}", 141, ""),
    ],
)
@pytest.mark.campaign
def test_closed_full_and_narrow_streams(agent, serve, shell, line, code, out):
    agent.use(serve([Reply("Done.")]))
    done = shell(line)
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert "Traceback" not in done.stderr


FULL = "No space left on device"


@pytest.mark.parametrize("flags", ["", "-q", "--json", "--json -q", "--output-format json"])
@pytest.mark.campaign
def test_a_full_device_is_told_and_the_session_is_whole(agent, serve, shell, flags):
    agent.use(serve([Reply("Done."), Reply("Done again.")]))
    done = shell(f"agent run hi {flags} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.count(f"stdout can't be written: {FULL}") == 1
    assert "Traceback" not in done.stderr
    again = shell("agent resume --last 'go on'")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("Done")


def test_a_full_disk_under_the_answer_s_file_is_told(agent, serve):
    agent.use(serve([Reply("Done.")]))
    done = agent("run", "hi", "-o", "/dev/full")
    assert done.returncode == 1
    assert done.stdout == "Done.\n"
    assert f"/dev/full can't be written: {FULL}" in done.stderr


@pytest.mark.parametrize("line", ["run hi -m", "run hi --json -m", "run", "nothing --json"])
def test_a_refusal_keeps_its_exit_code_when_nobody_reads(shell, line):
    whole = shell(f"agent {line}")
    for nowhere in ("/dev/full", "&-"):
        done = shell(f"agent {line} >{nowhere}")
        assert done.returncode == whole.returncode in (2, 3)
        assert done.stderr == whole.stderr


@pytest.mark.parametrize("command", ["sessions list --json", "config show", "--help", "schema"])
def test_other_commands_tell_a_full_device_too(shell, command):
    done = shell(f"agent {command} >/dev/full")
    assert (done.returncode, done.stderr) == (1, f"agent: stdout can't be written: {FULL}\n")


@pytest.mark.parametrize(
    "settings",
    [
        {"AGENT_HOME": "~nobody-of-that-name/x"},
        {"AGENT_CONFIG": "/dev/zero"},
        {"AGENT_CONFIG": "/"},
        {"OPENAI_BASE_URL": "http://[::1/v1"},
        {"OPENAI_BASE_URL": "nonsense"},
        {"OPENAI_API_KEY": "sk-with\nline-break"},
    ],
    ids=str,
)
def test_odd_surroundings_are_configuration_errors(agent, serve, settings):
    agent.use(serve())
    agent.env |= settings
    done = agent("run", "x")
    assert done.returncode == 3, done.stderr
    assert "line-break" not in done.stderr


def test_json_is_valid_even_for_wrong_usage(agent):
    for arguments in (["run", "--nonsense"], ["run", "--max-turns", "0", "x"], ["resume"]):
        done = agent(*arguments, "--json")
        (line,) = done.stdout.splitlines()
        assert (done.returncode, json.loads(line)["exit_code"]) == (2, 2)


def test_a_session_without_its_task_says_so(agent, serve):
    agent.use(serve([Reply("one")]))
    agent("run", "x")
    for event in sorted((agent.sessions[0] / "events").iterdir())[2:]:
        event.unlink()
    (agent.sessions[0] / "state.pkl").unlink()
    done = agent("resume", agent.sessions[0].name)
    assert done.returncode == 2
    assert "before it was given its task" in done.stderr


def test_foreign_things_among_the_sessions_stop_nothing(agent, serve):
    agent.use(serve([Reply("one"), Reply("two")]))
    agent("run", "x")
    folder = agent.home / "state" / "sessions"
    for name, content in (("odd", "²"), ("deep", "[" * 5000), ("wrong", '{"id": 0, "action": []}')):
        (folder / name / "events").mkdir(parents=True)
        (folder / name / "events" / "000000000.json").write_text(content)
    os.mkfifo(folder / "odd" / "events" / "000000001.json")
    (folder / "odd" / "events" / "²²²²²²²²².json").write_text("")
    assert agent("sessions", "list", "--all").returncode == 0
    assert agent("resume", "--last", "more").stdout == "two\n"


def test_many_bad_calls_in_one_reply_are_one_mistake(agent, serve):
    bad = [Call("read", {"file": str(number)}) for number in range(9)]
    done = agent.use(serve([Reply("", bad), Reply("I see.")]))("run", "x")
    assert done.stdout == "I see.\n", done.stderr


def test_a_cloned_repository_runs_nothing_when_it_is_only_looked_at(agent, serve, repository):
    evil = repository.parent / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {repository.parent}/ran\ncat\n")
    evil.chmod(0o755)
    with (repository / ".git" / "config").open("a") as config:
        config.write(
            f'[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n[filter "e"]\n\tclean = {evil}\n'
            f"[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {evil}\n"
        )
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=e\n")
    (repository / "tally.py").write_text("changed")
    agent.use(serve([Reply("ok")]))
    assert agent("run", "x").returncode == 0
    assert not (repository.parent / "ran").exists()
