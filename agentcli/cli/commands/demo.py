"""See the agent at work, without a key. A scripted model fixes a failing test.

Examples:
  agent demo
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from agentcli.cli.builders import builder_for
from agentcli.cli.flags import Flags
from agentcli.cli.options import option
from agentcli.cli.running.work import NewSession, work
from agentcli.errors import ConfigError, UsageError
from agentcli.system.programs import find_program

_FILES = Path(__file__).parents[2] / "demo"
_TASK = "A test fails here. Find out why and fix it."
_EXPLANATION = """\
agent demo: the model is scripted - it plays a recorded session. All else is
real: the repository, the tests, the loop, the tools, the session.
It runs {contained}, in {folder}
"""
_NEXT = """\
The session is kept. To go on with it:
  cd {folder}
  agent diff                       # what was done; agent undo takes it back
  agent resume --last "now add a test for rock'n'roll"
With a model of your own, in a project:
  agent setup                      # a key of Anthropic, OpenAI …, or a local server
  agent run "fix the failing test"
"""
_WORDS_PER_SECOND = 7
"""A quick reader's pace."""
_NO_REQUIREMENTS = ['run.check=""', 'run.require_evidence=""']
"""What the user requires of work elsewhere is not for the demo's repository."""
_PACE = f"providers.scripted.extra_body={{ words_per_second = {_WORDS_PER_SECOND} }}"


def demo(
    folder: Annotated[
        Path | None, option("--dir DIR", "New folder for the repository; default: a temporary one.")
    ] = None,
    fast: Annotated[bool, option("--fast", "Without the pauses for reading.")] = False,
) -> int:
    repository = _make_repository(folder)
    contained = _is_contained(repository)
    how = "in the sandbox" if contained else "without a sandbox, as none works here"
    explanation = _EXPLANATION.format(contained=how, folder=repository)
    print(explanation, file=sys.stderr, flush=True)
    paced = sys.stderr.isatty() and not fast
    flags = Flags(
        folder=str(repository),
        model="scripted/demo",
        yolo=not contained,
        no_sandbox=not contained,
        assignments=[*_NO_REQUIREMENTS, *([_PACE] if paced else [])],
        no_stdin=not sys.stdin.isatty(),
    )
    code = work(flags, NewSession(_TASK, flags))
    if code == 0:
        code = _show_outcome(repository)
    return code


def _show_outcome(repository: Path) -> int:
    """Show the diff and the result of the repository's tests, run as anybody would; return their
    exit code."""
    diff = subprocess.run(
        [_git(), "--no-pager", "diff"], cwd=repository, capture_output=True, text=True
    )
    tests = subprocess.run(
        [sys.executable, "-m", "unittest"], cwd=repository, capture_output=True, text=True
    )
    said = tests.stderr.splitlines()[-1]
    print(f"\n{diff.stdout}\ntests: {said}\n", file=sys.stderr)
    print(_NEXT.format(folder=repository), file=sys.stderr)
    return tests.returncode


def _is_contained(repository: Path) -> bool:
    """Return whether a sandbox works here for what the demo runs."""
    builder = builder_for(repository)
    folder = builder.home / "sessions" / "demo"
    return builder.containment(folder, attended=True).sandbox.contains


def _make_repository(folder: Path | None) -> Path:
    """Create a git repository with the demo's files committed. Raises UsageError if it exists."""

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
