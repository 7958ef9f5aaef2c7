"""List a folder in one line: folders, then build and configuration files, then other files.

Files with similar names share one entry.
"""

from __future__ import annotations

import os
import platform
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import islice
from pathlib import Path
from threading import Thread

from agentcli.events.texts import json_value
from agentcli.git import safe
from agentcli.system.programs import environment_folder, find_on, find_program, python_on_path
from agentcli.workspace.text import UnreadableText, read_bounded

_LEAST_FAMILY = 4
_CONFIGURES = re.compile(
    r".*\.(?:toml|cfg|ini|lock|gradle|mk|cmake|sln|csproj|cabal|gemspec|nix)|.*config\.\w+"
    r"|(?:GNU)?[Mm]akefile|Dockerfile|CMakeLists\.txt|Gemfile|Rakefile|justfile|BUILD|WORKSPACE"
    r"|setup\.py|noxfile\.py|conftest\.py|manage\.py|go\.mod|pom\.xml|(?:package|tsconfig|composer"
    r"|deno)\.json|requirements.*\.txt|AGENTS\.md|CLAUDE\.md|CONTRIBUTING\..*|meson\.build"
    r"|configure(?:\.ac)?|\.pre-commit-config\.yaml"
)
_TESTS = re.compile(r"().+([._-](?:test|spec)\.\w+)")
_FAMILY = re.compile(r"([^._-][^._-]*[._-]).+(\.[A-Za-z]\w*)")


def listing_entries(folders: Iterable[str], files: Sequence[str]) -> list[str]:
    """Return the names to show, with a slash after folders. Similar files share an entry, such as
    `README.*.md (18)`; dotfiles that configure nothing are only counted."""
    ordered = sorted(folders, key=lambda name: (name.startswith("."), name))
    shown = grouped_by_pattern(sorted(files))
    configures = [name for name in shown if _CONFIGURES.fullmatch(name)]
    rest = [name for name in shown if not _CONFIGURES.fullmatch(name) and name[0] != "."]
    hidden = sum(name[0] == "." and not _CONFIGURES.fullmatch(name) for name in files)
    dots = [f".* ({hidden})"] if hidden else []
    return [*(f"{name}/" for name in ordered), *configures, *rest, *dots]


def grouped_by_pattern(names: Sequence[str]) -> list[str]:
    """Return `names`, merging names that begin and end alike into one entry, at the first one's
    place."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        match = _TESTS.fullmatch(name) or _FAMILY.fullmatch(name)
        if match and not _CONFIGURES.fullmatch(name):
            families[match[1], match[2]].append(name)
    entry = {
        name: f"{begin}*{end} ({len(members)})"
        for (begin, end), members in families.items()
        if len(members) >= _LEAST_FAMILY
        for name in members
    }
    return list(dict.fromkeys(entry.get(name, name) for name in names))


_LARGEST_READ = 64 * 1024
_MOST_WORKFLOWS = 8
_NAMING = (
    *("AGENTS.md", "CLAUDE.md", "pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", "Makefile"),
    *("package.json", ".pre-commit-config.yaml", ".gitlab-ci.yml"),
)
_WORKFLOWS = ".github/workflows"
_TOOLS = re.compile(
    r"(?:(?<![\w./-])|(?<=tool\.))(ruff|mypy|pyright|black|isort|flake8|pylint|pre-commit|tox|nox|hatch|poetry|pdm"
    r"|tsc|eslint|prettier|jest|vitest|mocha|pnpm|yarn|golangci-lint|ninja|meson|bazel"
    r")(?![\w/-]|\.\w)"
)
_BY_FILE = {
    "package.json": ("node", "npm"),
    "Cargo.toml": ("cargo",),
    "go.mod": ("go",),
    "Makefile": ("make",),
    "justfile": ("just",),
    "CMakeLists.txt": ("cmake", "ctest"),
    "pom.xml": ("mvn",),
    "build.gradle": ("gradle",),
    "Gemfile": ("bundle",),
    "composer.json": ("composer",),
    "mix.exs": ("mix",),
}


TEST_SCRIPTS = ("package.json", "Makefile")
"""Files that may define a test script, but often don't."""
_NO_SCRIPT = "no test specified"
"""The placeholder that npm writes into a new package.json."""
_MAKE_TARGET = re.compile(r"^test\s*:(?!=)", re.MULTILINE)


def has_test_script(workspace: Path, name: str) -> bool:
    """Return whether `name`, one of TEST_SCRIPTS, has a script or target called test."""
    with suppress(UnreadableText):
        read = read_bounded(workspace / name, _LARGEST_READ, workspace)
        if read is None:
            return False
        if name == "Makefile":
            return _MAKE_TARGET.search(read.text) is not None
        match json_value(read.text):
            case {"scripts": {"test": str(script)}}:
                return bool(script.strip()) and _NO_SCRIPT not in script
    return False


def project_tools(
    workspace: Path, environ: Mapping[str, str], bin_folder: Path | None
) -> tuple[list[str], list[str]]:
    """Return the tools mentioned in files of `workspace`: those on the PATH of `environ`, and those
    missing. A tool is missing if it is neither on the PATH nor in `bin_folder` (of the virtual
    environment) nor in node_modules."""
    names = dict.fromkeys(_named(workspace))
    present = [name for name in names if find_on(name, environ.get("PATH"))]
    local = [folder for folder in (bin_folder, workspace / "node_modules/.bin") if folder]
    missing = [
        name
        for name in names
        if name not in present and not any(os.access(folder / name, os.X_OK) for folder in local)
    ]
    manifest = (workspace / "package.json").exists()
    if manifest and "npm" not in missing and not (workspace / "node_modules").exists():
        missing.append("npm packages (no node_modules)")
    return present, missing


def _named(workspace: Path) -> Iterator[str]:
    for name, tools in _BY_FILE.items():
        if (workspace / name).exists():
            yield from tools
    places = [workspace / name for name in _NAMING]
    with suppress(OSError):
        entries = sorted(islice(os.scandir(workspace / _WORKFLOWS), 100), key=lambda e: e.name)
        places += [Path(entry.path) for entry in entries[:_MOST_WORKFLOWS]]
    for place in places:
        with suppress(UnreadableText):
            if read := read_bounded(place, _LARGEST_READ, workspace):
                yield from (match[1] for match in _TOOLS.finditer(read.text))


_GIT_LIMIT_S = 1.0
_MAX_STATUS_LINES = 15
_NOISE = (".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "venv")
_USUAL_TOOLS = ("rg", "uv", "node", "npm", "cargo", "go", "make", "gcc", "jq")
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
_VERSIONED = re.compile(r"python\d+\.\d+\w*")


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
        # A file of TEST_SCRIPTS may exist without defining tests.
        real = (
            s for s in signs if s[0] not in TEST_SCRIPTS or has_test_script(self._workspace, s[0])
        )
        if tests := next((how for _, how in real), None):
            bare = tests == "pytest" and "without pytest" in (python or "")
            how = "python -m unittest" if bare else tests
            yield f"- tests are likely run with: {how}"
        path = self._environ.get("PATH")
        usual = (tool for tool in _USUAL_TOOLS if find_on(tool, path))
        yield f"- on PATH: {' '.join(dict.fromkeys([*usual, *self._present]))}"
        if self._missing:
            yield f"- not installed: {', '.join(self._missing)}"
        yield f"- {platform.system()} {platform.machine()}, {date.today():%Y-%m-%d}"

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
            found = python_on_path(self._environ)
            # The usual link leads to a name with the version; nothing is run for this.
            name = Path(os.path.realpath(found)).name if found else ""
            return f"{found} ({name})" if _VERSIONED.fullmatch(name) else found
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
