"""`agent demo`: the whole of a run without a key or a network; only the model is scripted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentcli.app.agent_builder import AgentBuilder
    from agentcli.app.open_session import OpenSession
    from agentcli.cli.work import Outcome

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
    """See agent at work, without a key. A scripted model fixes a failing test."""
    import subprocess
    import sys

    from agentcli.cli.work import Options, work

    repository = _make_repository(folder)
    print(_EXPLANATION.format(folder=repository), file=sys.stderr, flush=True)
    script = Path(__file__).parents[1] / "demo" / "session.jsonl"
    options = Options(
        folder=str(repository),
        overrides={
            "model.name": f"scripted/{script}",
            "agent.approval": "yolo",
            "sandbox.layer": "none",
        },
    )
    code = work(options, _Demo())
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
        from agentcli.app.agent_builder import resolve_workspace

        return resolve_workspace(folder)

    def open(self, builder: AgentBuilder, outcome: Outcome) -> OpenSession:
        bench = builder.create(outcome.subscribers)
        with bench.closed_on_failure():
            bench.say(_TASK)
        return bench


def _make_repository(folder: Path | None) -> Path:
    """A fresh git repository with the demo's files committed. Raises UsageError if it exists."""
    import shutil
    import subprocess
    import tempfile

    from agentcli.errors import UsageError

    git = _git()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="agent-demo-"))
    elif folder.exists():
        raise UsageError(f"{folder} already exists", hint="name a folder that does not")
    source = Path(__file__).parents[1] / "demo" / "repository"
    shutil.copytree(
        source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "A repository with a bug"]):
        subprocess.run([git, *identity, *arguments], cwd=folder, check=True, capture_output=True)
    return folder.resolve()


def _git() -> str:
    from agentcli.errors import ConfigError
    from agentcli.system.programs import find_program

    git = find_program("git")
    if git is None:
        raise ConfigError("the demo needs git, which is not installed")
    return git
