"""What most tests work with: the `agent` binary, a home of its own, a model on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import settings

from agentcli.sessions import set_store_selector
from agentcli.sessions.library import close_libraries
from tests.databases import KINDS, PostgreSQL, postgresql_programs, postgresql_server
from tests.preloaded import PROGRAM, SETTINGS, Preloaded, serves, spawn
from tests.server import ModelServer, Reply

CAMPAIGNS = (
    *("attacks", "faults", "llm/test_faults.py", "llm/test_bounds.py", "llm/test_real_model.py"),
    *("cli/test_long_sessions.py", "benchmarks/test_refusals.py"),
)
"""Folders and files whose tests are a second stage; single tests elsewhere carry the marker."""
CASES = 6
"""So many of a test are tried in a campaign, unless its marker `cases` or EVERY_CASE says more."""

# No deadline for an example: how long one takes is up to whoever else uses the machine.
# What is tried in CI is the same each time, so that a failure there is of the change.
settings.register_profile(
    "every day", deadline=None, max_examples=50, derandomize="CI" in os.environ
)
settings.register_profile("campaign", deadline=None, derandomize=True)
settings.load_profile("every day")

# A launcher that works in the background may have signals ignored, which programs would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)

SANDBOX = "sandbox.json"
"""In the home of `agent`."""
LIMIT_S = 60
"""A hang is a failure; nothing is expected to come near it."""

PYTHON = ("--set", "tools.enable_jupyter=true")
"""Flags that offer the tool python."""
MODELS = {
    "chat_completions": "openai-chat/gpt-5.5",
    "responses": "openai/gpt-5.5",
    "anthropic_messages": "anthropic/claude-sonnet-5-5",
}


_MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command from a small process: the memory of what starts one counts as its own."""


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "campaign":
        settings.load_profile("campaign")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core, as half of the time tests wait for what they have started; campaigns work
    more, some with processes of their own."""
    cores = os.cpu_count() or 1
    return cores + 1 if config.option.markexpr == "campaign" else 2 * cores


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Marks campaigns before what is not asked for is left out, then takes of each some cases."""
    places = [str(Path(__file__).parent / name) for name in CAMPAIGNS]
    for path, those in groupby(items, attrgetter("path")):
        if any(f"{path}/".startswith(f"{place}/") for place in places):
            for item in those:
                item.add_marker("campaign")
    yield
    if config.option.markexpr == "campaign" and "EVERY_CASE" not in os.environ:
        taken = set(_samples(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in taken])
        items[:] = [item for item in items if item in taken]


def _samples(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test some of its cases, spread over all."""
    for _, alike in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        cases = list(alike)
        marker = cases[0].get_closest_marker("cases")
        most = min(marker.args[0] if marker else CASES, len(cases))
        yield from (cases[at * len(cases) // most] for at in range(most))


@dataclass
class Agent:
    """Runs `agent` in `workspace` with nothing of the real user's environment."""

    home: Path
    workspace: Path
    env: dict[str, str] = field(default_factory=dict)
    preloaded: bool = True
    """As `tests.preloaded` starts it, where that can be; else by `command`."""

    @property
    def environment(self) -> dict[str, str]:
        base = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "AGENT_HOME": str(self.home / "state"),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        return {**base, **self.env}

    @property
    def command(self) -> list[str]:
        return PROGRAM

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        with self.start(*arguments, stdin=source, cwd=cwd or self.workspace) as process:
            try:
                out, err = process.communicate(stdin, timeout=LIMIT_S)
            except BaseException:
                process.kill()
                raise
        told = err.decode()
        assert "Traceback" not in told, told
        return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), told)

    def measured(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, float]:
        """Exit code, what was told on stderr, and the most memory that the run took, in MB."""
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *self.command, *arguments],
            cwd=self.workspace,
            env=self.environment,
            input=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
        )
        told, _, peak = done.stderr.decode().rstrip().rpartition("\n")
        assert "Traceback" not in told, told
        return done.returncode, told, int(peak) / 1000

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
        settings = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.workspace,
            "env": self.environment,
            **options,
        }
        if self.preloaded and serves(self.environment) and settings.keys() <= SETTINGS:
            return Preloaded(list(arguments), **settings)
        return subprocess.Popen([*self.command, *arguments], **settings)

    def spawn(
        self,
        *arguments: str,
        rows: int = 40,
        columns: int = 80,
        cwd: Path | None = None,
        **env: str,
    ) -> pexpect.spawn[str]:
        """In a pty."""
        return spawn(
            [*self.command, *arguments],
            cwd=str(cwd or self.workspace),
            env={**self.environment, **env},
            dimensions=(rows, columns),
            timeout=LIMIT_S,
            encoding="utf-8",
        )

    def ok(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `agent ARGUMENTS`, which ends with 0."""
        done = self(*arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def use(self, server: ModelServer, model: str = MODELS["chat_completions"]) -> Agent:
        """Talk to `server` from now on."""
        self.env |= {
            "AGENT_MODEL": model,
            "OPENAI_API_KEY": "sk-test-0123456789abcdef",
            "ANTHROPIC_API_KEY": "sk-ant-test-0123456789abcdef",
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "ANTHROPIC_BASE_URL": server.url,
        }
        return self

    def asks(self, server: ModelServer, model: str = MODELS["chat_completions"]) -> ModelServer:
        """Talk to `server` from now on, and return it."""
        self.use(server, model)
        return server

    @property
    def sessions(self) -> list[Path]:
        folder = self.home / "state" / "sessions"
        return sorted(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def agent(tmp_path: Path, tried_sandbox: bytes) -> Agent:
    home, workspace = tmp_path / "home", tmp_path / "work"
    (home / "state").mkdir(mode=0o700, parents=True)
    workspace.mkdir()
    if tried_sandbox:
        (home / "state" / SANDBOX).write_bytes(tried_sandbox)
    return Agent(home, workspace)


@pytest.fixture(scope="session")
def tried_sandbox(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a first run on this machine remembers of its sandbox, so that not each tries it anew."""
    base = tmp_path_factory.mktemp("first")
    with ModelServer([Reply("Hi.")]) as server:
        Agent(base, base).use(server)("run", "say hi")
    known = base / "state" / SANDBOX
    return known.read_bytes() if known.exists() else b""


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    """Start a model server with a script. At the end no server may have seen what a real provider
    would have refused, nor a request that broke the prefix of the one before it."""
    servers: list[tuple[ModelServer, int]] = []

    def start(
        script: Sequence[object] = (), *, sessions: int = 1, **options: object
    ) -> ModelServer:
        server = ModelServer(list(script), **options)
        server.__enter__()
        servers.append((server, sessions))
        return server

    yield start
    for server, _ in servers:
        server.__exit__(None, None, None)
    for server, sessions in servers:
        assert server.violations == []
        assert len(server.prefix_breaks()) < sessions


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A server of this worker's own."""
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql_server(programs) as server:
        yield server


@pytest.fixture
def kept_in(request: pytest.FixtureRequest) -> Iterator[str]:
    """Sessions of this process are kept in what the test asks for: see `in_every_store`."""
    kind = request.param
    place = {"files": "files", "sqlite": "sqlite:///sessions.db"}.get(kind)
    place = place or request.getfixturevalue("postgresql").database()
    set_store_selector(lambda home: place)
    yield kind
    close_libraries()
    set_store_selector(lambda home: "files")


in_every_store = pytest.mark.parametrize("kept_in", KINDS, indirect=True)


@pytest.fixture
def repository(agent: Agent) -> Path:
    """A small git repository in the workspace, with a bug that one of its tests shows."""
    source = Path(__file__).parents[1] / "agentcli" / "demo" / "repository"
    shutil.copytree(
        source,
        agent.workspace,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    git(agent.workspace, "init", "-q")
    git(agent.workspace, "add", ".")
    git(agent.workspace, "commit", "-qm", "start")
    return agent.workspace


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout
