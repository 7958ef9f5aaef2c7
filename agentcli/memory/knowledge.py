"""What the agent is told of the workspace at the start: facts that each task needs anyway."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

_GIT_LIMIT_S = 2.0
_MAX_STATUS_LINES = 15
_TOOLS = ("git", "rg", "python3", "uv", "node", "npm", "cargo", "go", "make", "docker", "gcc", "jq")
_TEST_SIGNS = (
    ("pytest.ini", "pytest"),
    ("tox.ini", "tox or pytest"),
    ("pyproject.toml", "pytest"),
    ("setup.py", "pytest"),
    ("package.json", "npm test"),
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("pom.xml", "mvn test"),
    ("build.gradle", "gradle test"),
    ("Makefile", "make test"),
)
# A repository's own settings must not run programs when we only look at it.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class WorkspaceFacts:
    """Starts asking git at once and collects the answer when `text` is wanted."""

    def __init__(self, workspace: Path, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._path = environ.get("PATH")
        self._virtual_env = environ.get("VIRTUAL_ENV")
        self._git: subprocess.Popen[bytes] | None = None
        if shutil.which("git", path=self._path):
            quiet = {**environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
            self._git = subprocess.Popen(
                [*_GIT, "status", "--porcelain", "--branch", "--no-renames"],
                cwd=workspace,
                env=quiet,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def text(self) -> str:
        return "\n".join(["Environment, at the start of the session:", *self._facts()])

    def _facts(self) -> Iterator[str]:
        yield f"- folder: {self._workspace}"
        yield f"- {self._git_state()}"
        entries = sorted(os.scandir(self._workspace), key=lambda entry: entry.name)
        names = [entry.name + ("/" if entry.is_dir() else "") for entry in entries]
        if names:
            more = f" … {len(names) - 40} more" if len(names) > 40 else ""
            yield f"- holds: {'  '.join(ascii_safe(name) for name in names[:40])}{more}"
        if python := self._python():
            yield f"- python: {python}"
        files = {entry.name for entry in entries}
        if tests := next((how for sign, how in _TEST_SIGNS if sign in files), None):
            yield f"- tests are likely run with: {tests}"
        found = [tool for tool in _TOOLS if shutil.which(tool, path=self._path)]
        yield f"- on PATH: {' '.join(found)}"
        yield f"- {platform.system()} {platform.machine()}, {date.today():%Y-%m-%d}"

    def _git_state(self) -> str:
        if self._git is None:
            return "git is not installed"
        try:
            out, _ = self._git.communicate(timeout=_GIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._git.kill()
            self._git.communicate()
            return "git: too slow to ask for its status"
        if self._git.returncode:
            return "not a git repository"
        branch, *changes = out.decode(errors="backslashreplace").splitlines()
        if not changes:
            return f"git: {branch.removeprefix('## ')}, clean"
        shown = changes[:_MAX_STATUS_LINES]
        more = len(changes) - len(shown)
        tail = [f"  … {more} more"] if more else []
        return "\n".join(
            [f"git: {branch.removeprefix('## ')}, changed:", *(f"  {c}" for c in shown), *tail]
        )

    def _python(self) -> str | None:
        for folder in (self._virtual_env, self._workspace / ".venv", self._workspace / "venv"):
            if folder and (Path(folder) / "bin" / "python").exists():
                return f"{Path(folder) / 'bin' / 'python'} (virtual environment)"
        return shutil.which("python3", path=self._path)


def ascii_safe(name: str) -> str:
    """A file name with what is not text in it escaped."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
