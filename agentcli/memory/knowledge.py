"""What the agent is told of the workspace at the start: facts that each task needs anyway."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

_GIT_LIMIT_S = 1.0
_MAX_STATUS_LINES = 15
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process)")
_NOISE = (".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "venv")
_TOOLS = ("rg", "uv", "node", "npm", "cargo", "go", "make", "docker", "gcc", "jq")
_TEST_SIGNS = (
    ("pytest.ini", "pytest"),
    ("tox.ini", "pytest"),
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
_HARMLESS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false")


class WorkspaceFacts:
    """Starts asking git at once and collects the answers when `text` is wanted."""

    def __init__(self, workspace: Path, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environ = environ
        self._harmless = [word for setting in _HARMLESS for word in ("-c", setting)]
        filters = _answer(self._ask_git("config", "--local", "--name-only", "--list")) or ""
        for name in {line for line in filters.split() if _FILTER.fullmatch(line)}:
            self._harmless += ["-c", f"{name}="]
        self._status = self._ask_git("status", "--porcelain", "--branch", "--no-renames")
        self._log = self._ask_git("log", "-3", "--format=%h %<(72,trunc)%s")

    def text(self) -> str:
        return "\n".join(["Environment, at the start of the session:", *self._facts()])

    def _facts(self) -> Iterator[str]:
        yield f"- folder: {self._workspace}"
        yield f"- {self._git_state()}"
        if commits := (_answer(self._log) or "").split("\n")[:-1]:
            yield f"- last commits: {'; '.join(commit.strip() for commit in commits)}"
        entries = sorted(os.scandir(self._workspace), key=lambda entry: entry.name)
        names = [e.name + ("/" if e.is_dir() else "") for e in entries if e.name not in _NOISE]
        if names:
            more = f" … {len(names) - 40} more" if len(names) > 40 else ""
            yield f"- holds: {'  '.join(ascii_safe(name) for name in names[:40])}{more}"
        if python := self._python():
            yield f"- python: {python}"
        files = {entry.name for entry in entries}
        if tests := next((how for sign, how in _TEST_SIGNS if sign in files), None):
            yield f"- tests are likely run with: {tests}"
        path = self._environ.get("PATH")
        yield f"- on PATH: {' '.join(tool for tool in _TOOLS if shutil.which(tool, path=path))}"
        yield f"- {platform.system()} {platform.machine()}, {date.today():%Y-%m-%d}"

    def _ask_git(self, *arguments: str) -> subprocess.Popen[bytes] | None:
        if not shutil.which("git", path=self._environ.get("PATH")):
            return None
        return subprocess.Popen(
            ["git", *self._harmless, *arguments],
            cwd=self._workspace,
            env={**self._environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _git_state(self) -> str:
        if self._status is None:
            return "git is not installed"
        status = _answer(self._status)
        if status is None:
            return "not a git repository, or one too large to ask for its status"
        branch, *changes = status.splitlines()
        if not changes:
            return f"git: {branch.removeprefix('## ')}, clean"
        shown = changes[:_MAX_STATUS_LINES]
        more = len(changes) - len(shown)
        tail = [f"  … {more} more"] if more else []
        return "\n".join(
            [f"git: {branch.removeprefix('## ')}, changed:", *(f"  {c}" for c in shown), *tail]
        )

    def _python(self) -> str | None:
        """The interpreter that commands here are likely to use, and whether it has pytest."""
        own = self._environ.get("VIRTUAL_ENV")
        for folder in (own, self._workspace / ".venv", self._workspace / "venv"):
            if folder and (Path(folder) / "bin" / "python").exists():
                version = next(Path(folder).glob("lib/python3.*"), Path("python3"))
                pytest = (version / "site-packages" / "pytest").exists()
                tests = "with" if pytest else "without"
                return f"{folder}/bin/python ({version.name}, virtual environment {tests} pytest)"
        return shutil.which("python3", path=self._environ.get("PATH"))


def _answer(process: subprocess.Popen[bytes] | None) -> str | None:
    """What a program printed; None when it failed or took too long."""
    if process is None:
        return None
    try:
        out, _ = process.communicate(timeout=_GIT_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    return None if process.returncode else out.decode(errors="backslashreplace")


def ascii_safe(name: str) -> str:
    """A file name with what is not printable text in it escaped."""
    text = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()
