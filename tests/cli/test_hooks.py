"""Hooks of the user: what they are told, what they can stop, and what becomes of bad ones."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from agentcli.system import processes
from tests.cli.test_run import wait_for
from tests.conftest import LIMIT_S
from tests.scripted import bash, call, write
from tests.server import Call, Reply

TOUCH = bash("touch ran")


@pytest.fixture
def hook(agent):
    """Set up a hook in the user's settings: a shell script, run at `event` with all their rights,
    unless `sandboxed` says otherwise."""
    lines: list[str] = []
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)

    def add(event: str, script: str, **settings: object) -> None:
        fields = {"command": script, "sandboxed": False, **settings}
        body = "\n".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())
        lines.append(f"[[hooks.{event}]]\n{body}\n")
        (folder / "config.toml").write_text("\n".join(lines))

    return add


def records(agent) -> list[dict]:
    [folder] = agent.sessions
    return [json.loads(path.read_text()) for path in sorted((folder / "events").glob("*.json"))]


def hook_records(agent) -> list[dict]:
    return [
        {"content": record["content"], **record.get("extras", {})}
        for record in records(agent)
        if record.get("observation") == "hook"
    ]


def told(server, request: int) -> str:
    return json.dumps(server.requests[request].body["messages"])


def running(mark: str) -> list[int]:
    """Processes with `mark` in their command line."""
    found = []
    for process in processes.all_processes():
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and process.state not in "ZX":
            found.append(process.pid)
    return found


def test_each_moment_is_told_with_what_belongs_to_it(agent, serve, hook):
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
    for event in events:
        hook(event, f"cat >> '{agent.home}/log'; echo >> '{agent.home}/log'")
    agent.use(serve([bash("echo out; exit 3"), Reply("Done.")]))
    agent.ok("run", "the task")
    told = [json.loads(line) for line in (agent.home / "log").read_text().splitlines()]
    assert [each["hook_event_name"] for each in told] == list(events)
    [folder] = agent.sessions
    for each in told:
        assert each["session_id"] == folder.name
        assert each["session_folder"] == str(folder)
        assert each["cwd"] == str(agent.workspace)
    start, prompt, before, after, stop, end = told
    assert start["reason"] == "new"
    assert prompt["prompt"] == "the task"
    assert before["tool_name"] == after["tool_name"] == "bash"
    assert before["tool_input"] == after["tool_input"] == {"command": "echo out; exit 3"}
    assert "out" in after["tool_output"]
    assert after["exit_code"] == 3
    assert stop["stop_hook_active"] is False
    assert end["reason"] == "finished"


def test_a_hook_runs_in_the_workspace_without_the_keys_of_models(agent, serve, hook):
    hook("SessionStart", f"pwd > '{agent.home}/pwd'; env > '{agent.home}/env'")
    agent.use(serve([Reply("Done.")]))
    agent.env["OWN_VARIABLE"] = "kept"
    agent("run", "x")
    seen = (agent.home / "env").read_text()
    assert (agent.home / "pwd").read_text().strip() == str(agent.workspace)
    assert agent.env["OPENAI_API_KEY"] not in seen
    assert "OWN_VARIABLE=kept" in seen
    assert f"AGENT_SESSION_ID={agent.sessions[0].name}" in seen


def test_a_hook_refuses_a_call_and_the_model_reads_why(agent, serve, hook):
    hook("PreToolUse", "echo 'not on a Sunday' >&2; exit 2", matcher="bash|python")
    server = serve([TOUCH, Reply("Then not.")])
    done = agent.use(server).ok("run", "x")
    assert not (agent.workspace / "ran").exists()
    assert "not on a Sunday" in told(server, 1)
    assert "not allowed by hook: not on a Sunday" in done.stderr
    [decision] = [r for r in records(agent) if r.get("observation") == "decision"]
    assert decision["extras"]["by"] == "hook"
    assert decision["extras"]["decision"] == "deny"
    [run] = hook_records(agent)
    assert run["blocked"]
    assert run["exit_code"] == 2


def test_a_hook_that_comes_too_late_to_block_is_not_said_to_have_blocked(agent, serve, hook):
    for event in ("SessionStart", "PostToolUse", "SessionEnd"):
        hook(event, "echo 'too late' >&2; exit 2")
    done = agent.use(serve([TOUCH, Reply("Done.")])).ok("run", "x")
    assert "PostToolUse hook exit 2: too late" in done.stderr
    assert "blocked" not in done.stderr
    assert not any(run.get("blocked") for run in hook_records(agent))


@pytest.mark.parametrize(
    ("matcher", "runs"), [("", False), ("bash", False), ("ba", True), ("read|ba.*", False)]
)
def test_a_matcher_is_for_the_whole_name(agent, serve, hook, matcher, runs):
    hook("PreToolUse", "exit 2", matcher=matcher)
    agent.use(serve([TOUCH, Reply("Done.")]))
    agent("run", "x")
    assert (agent.workspace / "ran").exists() is runs


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 1000", "ran longer than 0.2 s"),
        ("/no/such/guard", "exit code 127"),
        ("kill -9 $$", "signal 9"),
        ("sh -c 'kill -9 $$'; exit $?", "exit code 137"),
    ],
)
def test_a_guard_that_gives_no_answer_refuses(agent, serve, hook, script, said):
    hook("PreToolUse", script, timeout_s=0.2 if "sleep" in script else 60)
    server = serve([TOUCH, Reply("Done.")])
    agent.use(server).ok("run", "x")
    assert not (agent.workspace / "ran").exists()
    assert said in told(server, 1)


def test_any_other_exit_is_a_notice_and_the_work_goes_on(agent, serve, hook):
    hook("PreToolUse", "echo 'lint is broken' >&2; exit 1")
    agent.use(serve([TOUCH, Reply("Done.")]))
    done = agent.ok("run", "x")
    assert (agent.workspace / "ran").exists()
    assert "PreToolUse hook exit 1: lint is broken" in done.stderr


def test_what_a_hook_says_of_a_result_goes_to_the_model(agent, serve, hook):
    hook("PostToolUse", "echo 'format it first' >&2; exit 2", matcher="bash")
    server = serve([Reply("", [TOUCH.calls[0], Call("glob", {"pattern": "*"})]), Reply("Done.")])
    agent.use(server)("run", "x")
    messages = server.requests[1].body["messages"]
    assert [m["role"] for m in messages[-3:]] == ["tool", "tool", "user"]
    assert "format it first" in str(messages[-1])


def test_a_message_that_a_hook_refuses_is_not_taken(agent, serve, hook):
    hook("UserPromptSubmit", "grep -q secret && { echo 'names a secret' >&2; exit 2; }; exit 0")
    server = agent.asks(serve([Reply("Done.")]))
    done = agent("run", "tell the secret")
    assert done.returncode == 1
    assert "names a secret" in done.stderr
    assert "agent resume" not in done.stderr
    assert server.requests == []
    assert agent.sessions == []
    agent.ok("run", "something else")


def test_what_hooks_say_at_the_start_is_context_for_the_model(agent, serve, hook):
    hook("SessionStart", "echo 'the build is red'")
    hook("UserPromptSubmit", "echo 'it is Sunday'")
    hook("PreToolUse", "echo 'of no interest'")
    server = serve([TOUCH, Reply("Done."), Reply("Done.")])
    agent.use(server)("run", "x")
    assert "the build is red" in told(server, 0)
    assert "it is Sunday" in told(server, 0)
    assert "of no interest" not in told(server, 1)
    agent("resume", "--last", "again")
    assert told(server, 2).count("the build is red") == 2


def test_a_turn_goes_on_while_a_hook_holds_it(agent, serve, hook):
    log = agent.home / "log"
    hook("Stop", f"cat >> '{log}'; echo >> '{log}'; [ -e ran ] || {{ echo 'run it' >&2; exit 2; }}")
    server = serve([Reply("Done."), TOUCH, Reply("Really done.")])
    done = agent.use(server).ok("run", "x")
    assert done.stdout == "Really done.\n"
    assert "run it" in told(server, 1)
    active = [json.loads(line)["stop_hook_active"] for line in log.read_text().splitlines()]
    assert active == [False, True]


def test_a_turn_is_held_three_times_at_most(agent, serve, hook):
    hook("Stop", "echo 'go on' >&2; exit 2")
    server = agent.asks(serve([Reply("Done.")] * 8))
    done = agent.ok("run", "x")
    assert len(server.requests) == 4
    assert "held this turn 3 times" in done.stderr
    assert [run.get("blocked", False) for run in hook_records(agent)] == [True, True, True, False]
    agent("resume", "--last", "again")
    assert len(server.requests) == 8


def test_a_condensation_is_put_off(agent, serve, hook):
    condense = ["--set", "model.context_tokens=12000", "--set", "model.max_output_tokens=1000",
                "--set", "memory.high_water=0.2", "--set", "memory.low_water=0.15",
                "--set", "memory.condenser=window"]  # fmt: skip
    (agent.workspace / "long.txt").write_text("a line of a long file\n" * 500)
    script = [call("read", path="long.txt")] * 3 + [Reply("Done.")]
    agent.use(serve(script, sessions=9))
    agent("run", "x", *condense)
    assert any(record.get("action") == "condensation" for record in records(agent))
    hook("PreCompact", "echo 'not now' >&2; exit 2")
    agent.env["AGENT_HOME"] = str(agent.home / "other")
    agent.use(serve(script, sessions=9))
    agent("run", "x", *condense)
    [folder] = (agent.home / "other" / "sessions").iterdir()
    stored = "".join(path.read_text() for path in (folder / "events").glob("*.json"))
    assert '"condensation"' not in stored
    assert "not now" in stored


def test_escapes_and_keys_that_a_hook_prints_reach_neither_terminal_nor_model(agent, serve, hook):
    key = "sk-proj-" + "k1" * 12
    script = rf"printf '\033]52;c;ZXZpbA==\007\033[2J%s%s\n' {key[:8]} {key[8:]} >&2; exit 2"
    hook("PreToolUse", script)
    server = serve([TOUCH, Reply("Done.")])
    done = agent.use(server)("run", "x", "--verbose")
    assert "\x1b" not in done.stderr
    assert "\\u001b" not in told(server, 1)
    assert "52;c" not in told(server, 1)
    assert key not in told(server, 1)
    assert key not in done.stderr
    outcome = [r for r in records(agent) if r.get("observation") in ("decision", "user_rejected")]
    assert len(outcome) == 2
    assert key not in json.dumps(outcome)


@pytest.mark.campaign
def test_a_gigabyte_of_output_is_bounded(agent, serve, hook):
    hook("PreToolUse", "head -c 1000000000 /dev/zero | tr '\\0' x >&2; exit 2")
    server = serve([TOUCH, Reply("Done.")])
    done = agent.use(server).ok("run", "x")
    assert told(server, 1).count("x") < 10_000
    assert len(done.stderr) < 10_000
    [run] = hook_records(agent)
    assert 60_000 < len(run["content"]) < 70_000
    assert "left out" in run["content"]


def test_a_hook_may_read_nothing_of_what_it_is_told_or_echo_all_of_it(agent, serve, hook):
    hook("PreToolUse", f"tee '{agent.home}/copy'")
    hook("PreToolUse", "exec <&-; echo 'read nothing' >&2; exit 2")
    hook("PostToolUse", "true")
    server = serve([write("big.txt", "x" * 1_000_000), Reply("Done.")])
    agent.use(server).ok("run", "x")
    assert "read nothing" in told(server, 1)
    seen = json.loads((agent.home / "copy").read_text())
    assert len(seen["tool_input"]["content"]) == 1_000_000


@pytest.mark.parametrize("apart", ["", "setsid "])
def test_nothing_of_a_hook_that_ran_out_of_time_lives_on(agent, serve, hook, apart, tmp_path):
    mark = f"7{os.getpid()}.25"
    hook("SessionStart", f"{apart}sleep {mark} & sleep {mark}", timeout_s=0.3)
    agent.use(serve([Reply("Done.")]))
    done = agent.ok("run", "x")
    assert "ran longer than 0.3 s" in done.stderr
    assert running(mark) == []


@pytest.mark.parametrize("noise", ["sleep", "yes"])
def test_what_a_hook_leaves_in_the_background_ends_with_it(agent, serve, hook, noise):
    mark = f"9{os.getpid()}.25"
    hook("SessionStart", f"echo said; {noise} {mark} &")
    server = serve([Reply("Done.")])
    done = agent.use(server).ok("run", "x")
    assert "ran longer" not in done.stderr
    assert "said" in told(server, 0)
    assert running(mark) == []


def test_an_interrupt_ends_the_hook_and_the_run(agent, serve, hook):
    mark = f"8{os.getpid()}.25"
    begun = agent.home / "begun"
    os.mkfifo(begun)
    hook("PreToolUse", f"trap '' INT TERM; echo > '{begun}'; sleep {mark}")
    agent.use(serve([TOUCH, Reply("Went on.")]))
    process = agent.start("run", "x")
    begun.read_text()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert running(mark) == []
    assert not (agent.workspace / "ran").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"event": "PreToolUse", "matcher": "bash("}, "PreToolUse: matcher 'bash('"),
        ({"event": "Stop", "matcher": "bash"}, "Stop has no tool"),
        ({"event": "Stopp"}, "hooks.Stop"),
    ],
)
def test_a_mistake_in_a_hook_is_told_before_anything_runs(agent, serve, hook, settings, said):
    hook(settings.pop("event"), "true", **settings)
    done = agent.use(serve())("run", "x")
    assert done.returncode == 3
    assert said in done.stderr
    assert agent.sessions == []


def test_a_hook_at_the_end_of_a_session_can_be_interrupted(agent, serve, hook):
    """The answer is out by then, so the exit code stays what it was."""
    hook("SessionEnd", "echo > begun.tmp; mv begun.tmp begun; sleep 1000")
    process = agent.use(serve([Reply("Done.")])).start("run", "x")
    wait_for(agent.workspace / "begun", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (0, b"Done.\n")
    assert b"the SessionEnd hook was interrupted" in err


def test_what_is_told_from_another_terminal_passes_the_hooks_too(agent, serve, hook):
    hook("UserPromptSubmit", "grep -q secret && { echo 'names a secret' >&2; exit 2; }; exit 0")
    waiting = "touch begun; while ! test -e go; do sleep 0.01; done"
    server = serve([bash(waiting), Reply("Done.")])
    process = agent.use(server).start("run", "x", "--yolo")
    wait_for(agent.workspace / "begun", process)
    agent("tell", agent.sessions[0].name, "the secret is out", "--steer")
    agent("tell", agent.sessions[0].name, "mind the gap", "--steer")
    (agent.workspace / "go").touch()
    _, complaint = process.communicate(timeout=LIMIT_S)
    assert b"names a secret" in complaint
    assert "mind the gap" in told(server, -1)
    assert "the secret is out" not in told(server, -1)
