"""`agent run` at a real terminal: what is asked, what a person sees, what Ctrl-C does."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import termios
import threading

import pexpect
import pytest

from agentcli.cli import entry
from tests.conftest import LIMIT_S
from tests.emulated import Emulated
from tests.scripted import bash, call, write
from tests.server import Call, Hang, Reply

PROMPT = r"do instead(\x1b\[\d*m)?\x1b\[K\x1b\[J"


def ended(child: pexpect.spawn) -> str:
    """What was shown until the end; the exit code is in `child.exitstatus`."""
    child.expect(pexpect.EOF)
    child.close()
    return child.before


def test_commands_are_asked_about_and_the_answer_counts(agent, serve, at_terminal):
    script = [
        bash("touch asked"),
        bash("touch refused"),
        write("inside.txt", "x"),
        Reply("Done as you said."),
    ]
    server = agent.asks(serve(script))
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect("touch asked")
    child.expect(PROMPT)
    child.send("y")
    child.expect("touch refused")
    child.expect(PROMPT)
    child.send("t")
    child.expect("sends it as a no")
    child.sendline("not in this folder")
    child.expect(r"inside\.txt")
    child.expect(PROMPT)
    child.sendline("y")
    shown = ended(child)
    assert child.exitstatus == 0
    assert (agent.workspace / "asked").exists()
    assert not (agent.workspace / "refused").exists()
    assert (agent.workspace / "inside.txt").exists()
    assert "not in this folder" in str(server.requests[2].body["messages"][-1])
    assert shown.count("Done as you said.") == 1


def test_hooks_judge_what_a_person_is_asked_about_and_do_so_first(agent, serve, at_terminal):
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    hook = f"tee -a '{agent.home}/judged' | grep -q forbidden && exit 2; exit 0"
    settings.write_text(f"[[hooks.PreToolUse]]\ncommand = {json.dumps(hook)}\nsandboxed = false\n")
    script = [bash("touch forbidden"), bash("touch asked"), Reply("Done.")]
    agent.use(serve(script))
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect(PROMPT)
    assert "not allowed by hook" in child.before
    assert "touch asked" in child.before
    child.sendline("y")
    ended(child)
    assert (agent.workspace / "asked").exists()
    assert not (agent.workspace / "forbidden").exists()
    judged = (agent.home / "judged").read_text()
    assert judged.index("touch forbidden") < judged.index("touch asked")


def test_a_grant_for_the_session_outlives_the_process(agent, serve, at_terminal):
    script = [bash("touch one"), Reply("First."), bash("touch one"), Reply("Second.")]
    agent.use(serve(script))
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect(PROMPT)
    child.sendline("s")
    ended(child)
    child = at_terminal("resume", "--last", "--no-sandbox", "again")
    assert "Second." in ended(child)
    assert child.exitstatus == 0


def test_ctrl_c_stops_the_command_and_tells_how_to_go_on(agent, serve, at_terminal):
    server = agent.asks(serve([bash("echo begun; sleep 1000"), Reply("Went on.")]))
    child = at_terminal("run", "--yolo", "x")
    child.expect(r"\dmbegun")
    child.sendintr()
    shown = ended(child)
    assert child.exitstatus == 130
    assert "agent resume" in shown
    child = at_terminal("resume", "--last")
    assert "Went on." in ended(child)
    told = str(server.requests[-1].body["messages"])
    assert "begun" in told
    assert "interrupted" in told


def test_ctrl_c_while_the_model_thinks(agent, serve, at_terminal):
    never = threading.Event()
    agent.use(serve([Hang(never), Reply("Went on.")]))
    child = at_terminal("run", "x")
    child.expect("thinking")
    child.sendintr()
    ended(child)
    assert child.exitstatus == 130
    never.set()
    assert "Went on." in ended(at_terminal("resume", "--last"))


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_is_used_unless_it_is_not_wanted(agent, serve, at_terminal, no_color):
    agent.use(serve([call("read", path="missing"), Reply("`code` and **bold**")]))
    env = {"NO_COLOR": no_color} if no_color else {}
    shown = ended(at_terminal("run", "x", **env))
    colours = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;\d+;\d+)m", shown)
    assert bool(colours) is not bool(no_color)


def test_an_answer_that_goes_through_a_pipe_is_on_the_screen_once(agent, serve):
    agent.use(serve([Reply("The answer.")]))
    program = f"{' '.join(agent.command)} run x | cat"
    child = pexpect.spawn(
        "sh",
        ["-c", program],
        cwd=str(agent.workspace),
        env={**agent.environment, "TERM": "xterm-256color"},
        timeout=LIMIT_S,
        encoding="utf-8",
    )
    assert ended(child).count("The answer.") == 1


def test_a_call_that_makes_no_sense_is_told_without_its_json(agent, serve, at_terminal):
    agent.use(serve([call("grep", patern="x", path=1), Reply("Done.")]))
    shown = ended(at_terminal("run", "x"))
    assert "the model made a mistake in this call" in shown
    for internal in ("patern", "Field required", "Input should", "{"):
        assert internal not in shown


def test_escapes_from_model_and_tools_never_act(agent, serve, at_terminal):
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"
    script = [
        Reply(f"hello {evil}", [Call("bash", {"command": f"printf '{evil}hi'"})]),
        Reply(f"bye {evil}"),
    ]
    agent.use(serve(script))
    shown = ended(at_terminal("run", "--yolo", "x"))
    assert "bye" in shown
    assert "\x1b]52" not in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("kind", [OSError, termios.error])
def test_a_terminal_that_is_gone_before_its_signal_came_is_no_bug(monkeypatch, kind):
    monkeypatch.setattr(os, "isatty", lambda descriptor: False)
    outcome = entry.Outcome()
    with entry._reported(["run", "x"], outcome):
        raise kind(errno.EIO, os.strerror(errno.EIO))
    assert outcome.code == 143


PAGER = "sh -c 'echo PAGED; cat; echo END'"


@pytest.fixture
def worked(agent, serve):
    answer = "\n\n".join(f"line {number}" for number in range(40))
    agent.use(serve([Reply(answer)]))
    agent.ok("run", "count")
    return agent


def shown(agent, *arguments: str, rows: int = 24, **env: str) -> str:
    terminal = Emulated(
        [*agent.command, *arguments],
        agent.workspace,
        {**agent.environment, "PAGER": PAGER, **env},
        rows=rows,
    )
    assert terminal.ended() == 0
    return terminal.raw.decode()


def test_what_is_longer_than_the_screen_goes_through_the_pager(worked):
    show = ("sessions", "show")
    paged = shown(worked, *show)
    assert paged.startswith("PAGED")
    assert paged.rstrip().endswith("END")
    assert "line 0" in paged
    for straight in (
        shown(worked, *show, rows=120),
        shown(worked, *show, "--no-pager"),
        shown(worked, *show, PAGER=""),
        shown(worked, *show, PAGER="no-such-pager"),
        shown(worked, *show, PAGER="less 'x"),
        shown(worked, *show, TERM="dumb"),
        shown(worked, "sessions", "list"),
        worked(*show).stdout,
    ):
        assert "PAGED" not in straight
        assert straight


def test_a_pager_that_is_left_early_does_no_harm(worked):
    assert shown(worked, "sessions", "show", PAGER="head -1")
    assert "PAGED" in shown(worked, "sessions", "list", rows=1)


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
    agent.ok("sessions", "list", "--all")
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
    agent.ok("run", "x")
    assert not (repository.parent / "ran").exists()
