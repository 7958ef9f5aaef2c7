"""What a session is told of its workspace: what there is, and what is not."""

from __future__ import annotations

import os
import sys

import pytest

from agentcli.knowledge.facts import (
    WorkspaceFacts,
    grouped_by_pattern,
    listing_entries,
    project_tools,
)
from agentcli.knowledge.instructions import LONG_CHARS, condensed_instructions, find_instructions
from agentcli.system.programs import interpreter_of


@pytest.fixture
def place(tmp_path):
    """A workspace with a PATH of its own."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def program(place, name):
    path = place / "bin" / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def missing(place, **files):
    for name, text in files.items():
        path = place / "work" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environ = {"PATH": str(place / "bin")}
    return project_tools(place / "work", environ, place / "work/.venv/bin")[1]


# --- what is missing ----------------------------------------------------------------------------


def test_tools_that_the_project_names_and_that_are_not_here_are_told(place):
    program(place, "mypy")
    (place / "work/.venv/bin").mkdir(parents=True)
    (place / "work/.venv/bin/ruff").symlink_to(place / "bin/mypy")
    named = {
        "AGENTS.md": "Run `ruff check`, `tox -e py` and just look at path/to/black.",
        "pyproject.toml": "[tool.mypy]\n[tool.isort]\n# pre-commit runs both\n",
        ".github__workflows__ci.yml": "- run: nox -s lint\n",
    }
    assert missing(place, **named) == ["tox", "isort", "pre-commit", "nox"]


def test_what_a_file_of_the_project_needs_to_be_built_is_told(place):
    program(place, "go")
    assert missing(place, **{"go.mod": "", "Cargo.toml": "", "Makefile": "all:"}) == [
        *("cargo", "make"),
    ]


def test_what_it_needs_and_has_is_told_beside_the_usual_tools(place):
    for name in ("make", "cmake", "ctest"):
        program(place, name)
    (place / "work/CMakeLists.txt").write_text("")
    told = WorkspaceFacts(place / "work", {"PATH": str(place / "bin")}, lambda path: True).text()
    assert "- tests are likely run with: ctest\n- on PATH: make cmake ctest\n" in told


def test_packages_that_are_not_installed_are_told(place):
    program(place, "node")
    program(place, "npm")
    manifest = {"package.json": '{"scripts": {"test": "jest"}, "devDependencies": {"eslint": "8"}}'}
    assert missing(place, **manifest) == ["jest", "eslint", "npm packages (no node_modules)"]
    tool = place / "work/node_modules/.bin/jest"
    tool.parent.mkdir(parents=True)
    tool.symlink_to(place / "bin/npm")
    assert missing(place) == ["eslint"]


def test_files_that_are_no_files_keep_nobody_waiting(place):
    os.mkfifo(place / "work/AGENTS.md")
    (place / "work/pyproject.toml").symlink_to("/etc/passwd")
    (place / "work/tox.ini").mkdir()
    assert missing(place) == []


def test_plugins_of_pytest_and_its_absence_are_told(place):
    packages = place / "work/.venv/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    (place / "work/.venv/bin").mkdir()
    (place / "work/.venv/bin/python").write_text("")
    (place / "work/.venv/bin/python").chmod(0o755)
    (place / "work/pyproject.toml").write_text("")
    told = WorkspaceFacts(place / "work", {"PATH": ""}, lambda path: True).text()
    assert "environment without pytest)\n- tests are likely run with: python -m unittest" in told
    for name in ("pytest", "pytest_xdist-3.6.1.dist-info", "pytest_asyncio-1.0.dist-info"):
        (packages / name).mkdir()
    told = WorkspaceFacts(place / "work", {"PATH": ""}, lambda path: True).text()
    assert "with pytest and its plugins asyncio, xdist)\n" in told
    assert "- tests are likely run with: pytest\n" in told


# --- what the folder holds ----------------------------------------------------------------------


def test_folders_come_first_then_what_configures():
    files = ["zoo.py", ".gitignore", "pyproject.toml", "Makefile", "README.md", ".mailmap"]
    assert listing_entries(["tests", ".github", "src"], files) == [
        *("src/", "tests/", ".github/", "Makefile", "pyproject.toml", "README.md", "zoo.py"),
        ".* (2)",
    ]


def test_families_are_one_entry():
    readmes = [f"README.{language}.md" for language in ("de", "es", "fr", "it", "pt")]
    tests = ["lex_test.go", "meta_test.go", "parse_test.go", "toml_test.go"]
    assert grouped_by_pattern([*readmes, "README.md", "lex.go", *tests]) == [
        *("README.*.md (5)", "README.md", "lex.go", "*_test.go (4)"),
    ]
    assert grouped_by_pattern(["test_a.py", "test_b.py", "test_c.py"]) == [
        "test_a.py",
        "test_b.py",
        "test_c.py",
    ]


# --- long instructions --------------------------------------------------------------------------

LONG = f"""# Project

What it is.

## Architecture

{"The parser feeds the printer. " * 120}

### Layers

{"There are three layers. " * 40}

## Running the tests

{"Tests live beside the code. " * 40}

```
# no heading
make check
```

## History

{"It began long ago. " * 60}
But never rename `Old`.

## Glossary

{"A word is a word. " * 60}
"""


def test_a_long_file_keeps_what_every_task_needs_and_names_the_rest():
    assert len(LONG) > LONG_CHARS
    text = condensed_instructions(LONG, "AGENTS.md")
    assert len(text) < 0.6 * len(LONG)
    for kept in ("What it is.", "# no heading\nmake check", "But never rename `Old`."):
        assert kept in text
    assert "three layers" not in text
    lines = LONG.splitlines()
    named = text.rpartition("read those that the task is about in AGENTS.md: ")[2]
    assert named == "Architecture (5-8); Layers (9-12); Glossary (27-29)]\n"
    assert (lines[4], lines[8], lines[26]) == ("## Architecture", "### Layers", "## Glossary")


@pytest.mark.parametrize("text", ["", "short\n" * 100, "no heading " * 2_000, LONG[:3_000]])
def test_other_texts_are_told_whole(text):
    assert condensed_instructions(text, "AGENTS.md") == text


def test_only_files_of_the_project_are_told_in_short(tmp_path):
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "user").mkdir()
    for folder in ("project", "user"):
        (tmp_path / folder / "AGENTS.md").write_text(LONG)
    of_user, of_project = find_instructions(tmp_path / "project", tmp_path / "user").files
    assert of_user.text == LONG
    assert of_project.text == condensed_instructions(LONG, "AGENTS.md")


def test_a_test_script_is_told_only_where_there_is_one(place):
    def told(**files: str) -> bool:
        for path in (place / "work").glob("*"):
            path.unlink()
        for name, text in files.items():
            (place / "work" / name.replace("__", ".")).write_text(text)
        facts = WorkspaceFacts(place / "work", {"PATH": str(place / "bin")}, lambda path: True)
        return "tests are likely run with" in facts.text()

    assert told(package__json='{"scripts": {"test": "jest"}}')
    as_npm_makes_it = 'echo \\"Error: no test specified\\" && exit 1'
    assert not told(package__json=f'{{"scripts": {{"test": "{as_npm_makes_it}"}}}}')
    assert not told(package__json='{"scripts": {"build": "tsc"}}')
    assert not told(package__json="[" * 50_000)
    assert told(Makefile="all:\n\ntest: all\n\t./run\n")
    assert not told(Makefile="all:\n\ntests = 1\ntest := 2\n")


def test_python_is_the_workspace_s_never_agent_s_own(place, monkeypatch):
    """Where agent was put into a virtual environment, which may be the active one."""
    own = place / "agent-venv"
    for folder in (own / "bin", place / "work/.venv/bin"):
        folder.mkdir(parents=True)
        for name in ("python", "python3"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(own))
    environ = {"PATH": f"{own}/bin:{place}/bin", "VIRTUAL_ENV": str(own)}
    work = place / "work"
    assert interpreter_of(work, environ) == f"{work}/.venv/bin/python"
    facts = WorkspaceFacts(work, environ, lambda path: True).text()
    assert f"python: {work}/.venv/bin/python" in facts
    alone = place / "alone"
    alone.mkdir()
    program(place, "python3")
    assert interpreter_of(alone, environ) == f"{place}/bin/python3"
    assert str(own) not in WorkspaceFacts(alone, environ, lambda path: True).text()
    monkeypatch.setattr(sys, "prefix", f"{work}/.venv")
    shared = {"PATH": f"{work}/.venv/bin", "VIRTUAL_ENV": f"{work}/.venv"}
    assert interpreter_of(work, shared) == f"{work}/.venv/bin/python"
