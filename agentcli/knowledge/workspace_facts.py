"""Facts about the workspace that the model gets at the start, as every task needs them anyway."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from threading import Thread

from agentcli.git import safe
from agentcli.knowledge.folder_listing import listing_entries
from agentcli.knowledge.project_tools import TEST_SCRIPTS, has_test_script, project_tools
from agentcli.system.programs import environment_folder, find_on, find_program, python_on_path

_GIT_LIMIT_S = 1.0
_MAX_STATUS_LINES = 15
_NOISE = (".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "venv")
_TOOLS = ("rg", "uv", "node", "npm", "cargo", "go", "make", "gcc", "jq")
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
    ("CMakeLists.txt", "ctest"),
    ("Makefile", "make test"),
)


_PLUGIN = re.compile(r"pytest_(\w+?)-[\d.]+\w*\.dist-info")
_MOST_PLUGINS = 8


class WorkspaceFacts:
    """Starts asking git at once, in the background, and collects the answers when `text` is called.
    `may_read` says whether the session may read a resolved path."""

    def __init__(
        self, workspace: Path, environ: Mapping[str, str], may_read: Callable[[Path], bool]
    ) -> None:
        self._workspace = workspace
        self._may_read = may_read
        self._environ = environ
        self._git = find_program("git")
        self._look: safe.RepositoryStatus | None = None
        self._present: list[str] = []
        self._missing: list[str] = []
        self._asking = Thread(target=self._find_out, daemon=True)
        self._asking.start()

    def text(self) -> str:
        return "\n".join(["Environment, at the start of the session:", *self._facts()])

    def _facts(self) -> Iterator[str]:
        yield f"- folder: {self._workspace}"
        self._asking.join(2 * _GIT_LIMIT_S)
        yield f"- {self._git_state()}"
        if self._look and self._look.commits:
            yield f"- last commits: {'; '.join(self._look.commits)}"
        entries = [e for e in os.scandir(self._workspace) if e.name not in _NOISE]
        folders = [ascii_safe(entry.name) for entry in entries if entry.is_dir()]
        files = [ascii_safe(entry.name) for entry in entries if not entry.is_dir()]
        if names := listing_entries(folders, files):
            more = f" … {len(names) - 40} more" if len(names) > 40 else ""
            yield f"- holds: {'  '.join(names[:40])}{more}"
        if python := self._python():
            yield f"- python: {python}"
        signs = (each for each in _TEST_SIGNS if each[0] in files)
        if tests := next((how for sign, how in signs if self._has_tests(sign)), None):
            bare = tests == "pytest" and "without pytest" in (python or "")
            how = "python -m unittest" if bare else tests
            yield f"- tests are likely run with: {how}"
        path = self._environ.get("PATH")
        usual = (tool for tool in _TOOLS if find_on(tool, path))
        yield f"- on PATH: {' '.join(dict.fromkeys([*usual, *self._present]))}"
        if self._missing:
            yield f"- not installed: {', '.join(self._missing)}"
        yield f"- {platform.system()} {platform.machine()}, {date.today():%Y-%m-%d}"

    def _has_tests(self, sign: str) -> bool:
        """Return whether the file `sign` really defines tests; some files may exist without."""
        return sign not in TEST_SCRIPTS or has_test_script(self._workspace, sign)

    def _find_out(self) -> None:
        folder = environment_folder(self._workspace, self._environ)
        bin_folder = folder / "bin" if folder else None
        self._present, self._missing = project_tools(self._workspace, self._environ, bin_folder)
        if self._git is not None:
            self._look = safe.repository_status(
                self._workspace, self._git, _GIT_LIMIT_S, self._may_read
            )

    def _git_state(self) -> str:
        if self._git is None:
            return "git is not installed"
        if self._look is None:
            return "not a git repository, or one too large to ask for its status"
        changes = self._look.changes
        if not changes:
            return f"git: {self._look.branch}, clean"
        more = len(changes) - _MAX_STATUS_LINES
        tail = [f"  … {more} more"] if more > 0 else []
        shown = (f"  {change}" for change in changes[:_MAX_STATUS_LINES])
        return "\n".join([f"git: {self._look.branch}, changed:", *shown, *tail])

    def _python(self) -> str | None:
        """Describe the interpreter that commands are likely to use, and whether it has pytest."""
        folder = environment_folder(self._workspace, self._environ)
        if folder is None:
            return python_on_path(self._environ)
        version = next(folder.glob("lib/python3.*"), Path("python3"))
        pytest = _pytest(version / "site-packages")
        return f"{folder}/bin/python ({version.name}, virtual environment {pytest})"


def _pytest(packages: Path) -> str:
    """Say whether pytest is installed, and with which plugins."""
    if not (packages / "pytest").exists():
        return "without pytest"
    names = (_PLUGIN.match(path.name) for path in packages.iterdir())
    found = sorted(match[1] for match in names if match)
    plugins = f" and its plugins {', '.join(found[:_MOST_PLUGINS])}" if found else ""
    return f"with pytest{plugins}"


def ascii_safe(name: str) -> str:
    """Return a file name with everything that is not printable text escaped."""
    text = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()
