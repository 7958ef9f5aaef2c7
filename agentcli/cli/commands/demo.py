"""See agent at work, without a key. A scripted model fixes a failing test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.config import resolve_workspace
from agentcli.app.open_session import OpenSession
from agentcli.cli.flags import Flags
from agentcli.cli.outcome import OutcomeReporter
from agentcli.cli.work import work
from agentcli.errors import ConfigError, UsageError
from agentcli.system.programs import find_program

_FILES = Path(__file__).parents[2] / "demo"
_TASK = "A test fails here. Find out why and fix it."
_EXPLANATION = """\
agent demo: the model is scripted - it plays a recorded session. All else is
real: the repository, the tests, the loop, the tools, the session.
It runs without a sandbox, in {folder}
"""
_NEXT = """\
To use a real model, set one of ANTHROPIC_API_KEY, OPENAI_API_KEY,
OPENROUTER_API_KEY or GEMINI_API_KEY, or start a local server (ollama,
LM Studio, vLLM, llama.cpp). Then, in a project:
  agent run "fix the failing test"
What was done here: cd {folder} && git diff
"""


def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="New folder for the repository; default: a temporary one."),
    ] = None,
) -> int:
    repository = _make_repository(folder)
    print(_EXPLANATION.format(folder=repository), file=sys.stderr, flush=True)
    script = _FILES / "session.jsonl"
    flags = Flags(folder=str(repository), model=f"scripted/{script}", yolo=True, no_sandbox=True)
    code = work(flags, _Demo())
    if code == 0:
        diff = subprocess.run(
            [_git(), "--no-pager", "diff"], cwd=repository, capture_output=True, text=True
        )
        print(f"\n{diff.stdout}", file=sys.stderr)
        tests = subprocess.run(
            [sys.executable, "-m", "unittest"], cwd=repository, capture_output=True, text=True
        )
        print(f"tests: {tests.stderr.splitlines()[-1]}\n", file=sys.stderr)
        code = tests.returncode
        print(_NEXT.format(folder=repository), file=sys.stderr)
    return code


class _Demo:
    def workspace(self, folder: str | None) -> Path:
        return resolve_workspace(folder)

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        opened = builder.create(outcome.subscribers)
        with opened.closed_on_failure():
            opened.say(_TASK)
        return opened


def _make_repository(folder: Path | None) -> Path:
    """A fresh git repository with the demo's files committed. Raises UsageError if it exists."""

    git = _git()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="agent-demo-"))
    elif folder.exists():
        raise UsageError(f"{folder} already exists", hint="name a folder that does not")
    source = _FILES / "repository"
    shutil.copytree(
        source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "A repository with a bug"]):
        subprocess.run([git, *identity, *arguments], cwd=folder, check=True, capture_output=True)
    return folder.resolve()


def _git() -> str:
    git = find_program("git")
    if git is None:
        raise ConfigError("the demo needs git, which is not installed")
    return git


COMMAND = demo
