"""Find the development tools that a project mentions, and which of them are missing here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agentcli.events.json_text import json_value
from agentcli.system.programs import find_on
from agentcli.workspace.bounded_files import UnreadableText, read_bounded

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
