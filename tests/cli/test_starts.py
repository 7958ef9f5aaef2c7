"""A run that can't begin: it says why and what to do, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentcli.sessions.finder import in_use_by
from tests.conftest import LIMIT_S, Agent
from tests.server import Reply

RUN, RESUME = "run", "resume"
BOTH = (RUN, RESUME)


@dataclass(frozen=True)
class Failure:
    """What keeps a run from beginning: settings (TOML), flags, a change of variables (None: unset),
    or whatever `prepare` does with the session's folder, None before a new run. The complaint must
    contain `told`, and a second line unless `hint` is off."""

    name: str
    exit_code: int
    told: str
    flags: tuple[str, ...] = ()
    settings: str = ""
    env: dict[str, str | None] = field(default_factory=dict)
    message: str = "go on"
    hint: bool = True
    verbs: tuple[str, ...] = BOTH
    prepare: Callable[[Agent, Path | None], None] = lambda agent, folder: None


def hook(event: str, command: str) -> str:
    return f"[[hooks.{event}]]\ncommand = {json.dumps(command)}\nsandboxed = false\n"


def set_flag(key: str, value: str) -> tuple[str, ...]:
    return ("--set", f"{key}={value}")


def task_skill(agent: Agent, folder: Path | None) -> None:
    skills = agent.workspace / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "greet.md").write_text("---\nname: greet\ninputs:\n  - name: who\n---\nGreet ${who}.")


def name_taken(agent: Agent, folder: Path | None) -> None:
    agent.ok("run", "first", "--name", "taken")


def bad_template(agent: Agent, folder: Path | None) -> None:
    (agent.workspace / "prompt.j2").write_text("{% if %}")


def damaged(agent: Agent, folder: Path | None) -> None:
    assert folder is not None
    (folder / "events/000000001.json").write_text("{")


def workspace_gone(agent: Agent, folder: Path | None) -> None:
    agent.workspace.rename(agent.workspace.with_name("moved"))
    agent.workspace = agent.home


def no_home(agent: Agent, folder: Path | None) -> None:
    (agent.home / "file").write_text("")


FAILURES = [
    Failure("bad rule", 3, "is not a rule", ("--allow", "bash((")),
    Failure("bad rule in settings", 3, "is for a tool", settings='[security]\ndeny=["bsh(x)"]'),
    Failure("unknown condenser", 3, "no condenser", set_flag("memory.condenser", "nope")),
    Failure(
        "impossible condenser",
        3,
        "keep_first is 1000",
        (*set_flag("memory.condenser", "recent"), *set_flag("memory.keep_first", "1000")),
    ),
    Failure(
        "no such template", 3, "can't be read", set_flag("agent.prompt", "/no/such"), verbs=(RUN,)
    ),
    Failure(
        "bad template",
        3,
        "line 1",
        set_flag("agent.prompt", "prompt.j2"),
        prepare=bad_template,
        verbs=(RUN,),
    ),
    Failure("unknown provider", 3, "no provider", ("-m", "nope/x")),
    Failure("missing key", 3, "ANTHROPIC_API_KEY", ("-m", "anthropic/claude-x")),
    Failure("unknown judge", 3, "no provider", set_flag("models.judge", "nope/x")),
    Failure("unknown price", 3, "price", ("-m", "openai-chat/odd", "--max-budget-usd", "1")),
    Failure("no sandbox", 3, "does not work here", set_flag("sandbox.layer", "seatbelt")),
    Failure("no folder to add", 3, "no folder", ("--add-dir", "/no/such")),
    Failure("unknown setting", 3, "no setting", settings="[agent]\nmax_turn = 3"),
    Failure("bad value", 3, "max_turns", settings='[agent]\nmax_turns = "x"', hint=False),
    Failure("broken settings", 3, "config.toml", settings="[agent", hint=False),
    Failure("bad flag", 2, "--approval", ("--approval", "never"), hint=False),
    Failure("no such image", 2, "can't be read", ("-i", "none.png"), hint=False),
    Failure("name taken", 2, "taken", ("--name", "taken"), prepare=name_taken, verbs=(RUN,)),
    Failure("bad name", 2, "can't be a name", ("--name", "a/b"), verbs=(RUN,)),
    Failure(
        "task without inputs",
        2,
        "/greet needs who: /greet who=",
        message="/greet",
        prepare=task_skill,
        hint=False,
    ),
    Failure(
        "refused by a hook",
        1,
        "a hook refused the message: not today",
        settings=hook("UserPromptSubmit", "echo not today >&2; exit 2"),
        hint=False,
    ),
    Failure(
        "no place for sessions",
        1,
        "file/state",
        env={"AGENT_HOME": "{home}/file/state"},
        prepare=no_home,
        verbs=(RUN,),
    ),
    Failure("damaged", 1, "is damaged", prepare=damaged, verbs=(RESUME,)),
    Failure("workspace gone", 3, "no longer there", prepare=workspace_gone, verbs=(RESUME,)),
]


@pytest.fixture
def begun(agent: Agent, serve: Callable[..., object]) -> Agent:
    """An agent with hooks that log when a session starts and ends."""
    agent.use(serve([Reply("Hello.") for _ in range(4)], sessions=4))
    settings = agent.home / ".config/agent/config.toml"
    settings.parent.mkdir(parents=True)
    configure(agent, "")
    return agent


def configure(agent: Agent, more: str) -> None:
    log = agent.home / "hooks.log"
    noted = "".join(hook(name, f"echo {name} >> {log}") for name in ("SessionStart", "SessionEnd"))
    (agent.home / ".config/agent/config.toml").write_text(f"{more}\n{noted}")


def hooks_run(agent: Agent) -> list[str]:
    log = agent.home / "hooks.log"
    return log.read_text().split() if log.exists() else []


def processes_of(agent: Agent) -> Iterator[str]:
    """Command lines of what runs with this agent's home."""
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            if f"HOME={agent.home}".encode() in variables:
                yield (entry / "cmdline").read_text()
        except OSError:
            continue


def require_nothing_left(agent: Agent, sessions: list[Path]) -> None:
    assert agent.sessions == sessions
    for folder in sessions:
        assert in_use_by(folder) is None
        assert not (folder / "reserve").exists()
        assert not (folder / "shell").exists()
    scrap = agent.home / "state/sessions.scrap"
    assert not scrap.exists() or not any(scrap.iterdir())
    assert list(processes_of(agent)) == []
    hooks = hooks_run(agent)
    assert hooks.count("SessionStart") == hooks.count("SessionEnd")


@pytest.mark.parametrize(
    ("failure", "verb"),
    [
        pytest.param(failure, verb, id=f"{failure.name}, {verb}")
        for failure in FAILURES
        for verb in failure.verbs
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(begun, failure, verb):
    agent, folder = begun, None
    if verb == RESUME:
        agent.ok("run", "hello")
        [folder] = agent.sessions
    failure.prepare(agent, folder)
    configure(agent, failure.settings)
    for name, value in failure.env.items():
        agent.env[name] = value.format(home=agent.home)
    if failure.name == "missing key":
        del agent.env["ANTHROPIC_API_KEY"]
    before = agent.sessions
    arguments = ["run", failure.message] if folder is None else [RESUME, folder.name, "go on"]
    if folder is not None:
        arguments[2] = failure.message
    done = agent(*arguments, *failure.flags, "--json")
    assert done.returncode == failure.exit_code, done.stderr
    assert failure.told in done.stderr
    complaint = done.stderr[done.stderr.index("agent: " if folder is None else "") :]
    if failure.hint:
        assert len(complaint.strip().splitlines()) > 1, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["type"], result["exit_code"]) == ("result", failure.exit_code)
    assert failure.told in result["error"]["message"]
    if folder is None:
        assert result["session_id"] == result["resume_command"] == ""
        assert '"init"' not in done.stdout
    require_nothing_left(agent, before)
    if failure.name == "broken settings":
        # They can't tell where sessions are kept, but the environment goes before them.
        assert agent("sessions", "list", "--all").returncode == failure.exit_code
        agent.env["AGENT_STORE"] = "files"
    assert agent("sessions", "list", "--all").stdout.count("\n") == len(before)


def test_after_a_start_that_failed_the_session_goes_on(begun):
    agent = begun
    agent.ok("run", "hello")
    [folder] = agent.sessions
    assert agent("resume", folder.name, "go on", "--allow", "bash((").returncode == 3
    assert agent("resume", folder.name, "go on").stdout == "Hello.\n"
    require_nothing_left(agent, [folder])


@pytest.mark.parametrize("verb", BOTH)
def test_what_came_through_stdin_is_not_lost(begun, verb):
    agent = begun
    agent.ok("run", "hello")
    [folder] = agent.sessions
    configure(agent, hook("UserPromptSubmit", "echo not today >&2; exit 2"))
    where = ["run"] if verb == RUN else ["resume", folder.name]
    for arguments in ([*where, "-"], [*where, "read this"]):
        done = agent(*arguments, stdin=b"a long story\n" * 50_000)
        assert done.returncode == 1
        [path] = [
            Path(line.split(" is kept in ")[1])
            for line in done.stderr.splitlines()
            if line.startswith("agent: what came through stdin is kept in ")
        ]
        assert path.read_bytes() == b"a long story\n" * 50_000
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.parent == Path(tempfile.gettempdir())
        path.unlink()
    require_nothing_left(agent, [folder])


def test_nobody_waits_for_a_pipe_when_the_settings_are_wrong(begun):
    reading, writing = os.pipe()
    process = begun.start("run", "-", "-m", "nope/x", stdin=reading)
    os.close(reading)
    _, err = process.communicate(timeout=LIMIT_S)
    os.close(writing)
    assert process.returncode == 3
    assert b"no provider" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_hook_starts_leaves_nothing(begun, number):
    agent = begun
    for name in ("began", "may_end"):
        os.mkfifo(agent.home / name)
    may_end = os.open(agent.home / "may_end", os.O_RDWR)
    configure(agent, hook("SessionStart", f"cd {agent.home}; echo > began; exec head -c 1 may_end"))
    process = agent.start("run", "-", stdin=subprocess.PIPE)
    process.stdin.write(b"do it")
    process.stdin.close()
    (agent.home / "began").read_text()
    process.send_signal(number)
    err = process.stderr.read().decode()
    assert process.wait(LIMIT_S) == 128 + number
    os.write(may_end, b"x")
    os.close(may_end)
    Path(err.split("is kept in ")[1].split("\n")[0]).unlink()
    assert agent.sessions == []
    assert hooks_run(agent)[-1] == "SessionEnd"
