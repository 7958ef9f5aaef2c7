"""Finds syntax errors that a change introduced, judged by the language level of the project."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agentcli.system.programs import interpreter_of
from agentcli.workspace.private import read_private
from agentcli.workspace.text import load_toml

_MAX_CHECKED_CHARACTERS = 1_000_000
_OURS = sys.version_info[:2]


def introduced_error(path: Path, workspace: Path, old: str, new: str) -> str | None:
    """Describe a syntax error that `new` has but `old` did not, for the file types checked here."""
    problem = _syntax_error(path, workspace, new)
    if problem is None or (old and _syntax_error(path, workspace, old)):
        if problem is None or not path.name.endswith(".json") or _json_error(old, comments=True):
            return None
        # A file that has comments may have them.
        problem = _json_error(new, comments=True)
    return f"Syntax error since this change: {problem}" if problem else None


def _syntax_error(path: Path, workspace: Path, text: str) -> str | None:
    if len(text) > _MAX_CHECKED_CHARACTERS:
        return None
    try:
        if path.suffix in (".py", ".pyi"):
            return _python_error(path, workspace, text)
        if path.suffix == ".json" or _may_have_comments(path):
            return _json_error(text, comments=_may_have_comments(path))
        if path.suffix == ".toml":
            load_toml(text)
    except ValueError as error:
        return str(error)
    except (RecursionError, MemoryError):
        # Too deeply nested for our parser, which says nothing about the file.
        return None
    return None


# --- JSON ---------------------------------------------------------------------------------------

_COMMENTED_SUFFIXES = (".jsonc", ".code-workspace", ".code-snippets", ".hujson")
_COMMENTED_FOLDERS = (".vscode", ".zed", ".devcontainer")
# Their programs read comments and trailing commas: TypeScript, VS Code, ESLint, Babel, Pyright, …
_COMMENTED_NAMES = re.compile(
    r"(?:tsconfig|jsconfig)(?:[.-].+)?\.json|\.?devcontainer\.json|\.eslintrc\.json"
    r"|\.babelrc\.json|babel\.config\.json|tslint\.json|api-extractor\.json|typedoc\.json"
    r"|pyrightconfig\.json|deno\.json|turbo\.json|nx\.json|wrangler\.json"
    r"|language-configuration\.json|keybindings\.json"
)
_JSON_PART = re.compile(
    r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*(?:.*?\*/|.*)|,(?=(?:\s|//[^\n]*\n|/\*.*?\*/)*+[}\]])', re.S
)


def _may_have_comments(path: Path) -> bool:
    name = path.name
    if name.endswith(_COMMENTED_SUFFIXES) or _COMMENTED_NAMES.fullmatch(name):
        return True
    return path.suffix == ".json" and path.parent.name in _COMMENTED_FOLDERS


def _json_error(text: str, *, comments: bool) -> str | None:
    if comments:
        text = _JSON_PART.sub(_blank, text)
        if not text.strip():
            return None
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    except RecursionError:
        # Too deeply nested for our parser, which says nothing about the file.
        return None
    return None


def _blank(part: re.Match[str]) -> str:
    """Replace comments and trailing commas by as much white space, so that places stay."""
    found = part[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


# --- Python -------------------------------------------------------------------------------------


class _Level(NamedTuple):
    """The oldest Python that the code is for, and what says so."""

    version: tuple[int, int]
    by: str


_BOUND = re.compile(r"(?:>=|~=|==|\^|~)\s*v?(\d+)(?:\.(\d+))?")
_SETUP_BOUND = re.compile(r"""python_requires\s*=\s*["']?([^"'\n]+)""")
_VERSION = re.compile(r"(\d+)\.(\d+)")
_OLDEST_JUDGED = (3, 7)
# What Python has got since 3.11, whose parsers don't say what they stumble over: the type
# statement and type parameters (3.12), any text in f-strings (3.12), t-strings and exceptions
# without parentheses (3.14), lazy imports and unpacking in comprehensions (3.15).
_NEWER = re.compile(
    r"\s*type\s+\w+\s*[\[=]|\s*(?:async\s+)?(?:def|class)\s+\w+\s*\[|\s*except\*?\s+[^(:]+,"
    r"|\s*lazy\s+(?:import|from)\b|.*(?<!\w)(?:[fFtT][rR]?|[rR][fFtT])[\"']"
)
_NEWER_MESSAGES = ("f-string", "iterable unpacking cannot be used in comprehension")


def _python_error(path: Path, workspace: Path, text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, path.name, "exec", dont_inherit=True)
    except SyntaxError as error:
        return _unless_newer(error, text, _level(path, workspace))
    level = _level(path, workspace)
    if level and _OLDEST_JUDGED <= level.version < _OURS and path.suffix == ".py":
        try:
            ast.parse(text, feature_version=level.version)
        except SyntaxError as error:
            return f"{_described(error)} ({level.by} allows {_shown(level)})"
    return None


def _unless_newer(error: SyntaxError, text: str, level: _Level | None) -> str | None:
    """Describe the error, unless the project's Python may be a newer one that takes the line."""
    if level and level.version[0] < 3:
        return None
    # What stubs may have depends on the type checker alone.
    if level is None or level.version > _OURS or (error.filename or "").endswith(".pyi"):
        lines = text.split("\n")
        first, last = (error.lineno or 1) - 1, error.end_lineno or error.lineno or 1
        if error.msg.startswith(_NEWER_MESSAGES) or any(map(_NEWER.match, lines[first:last])):
            return None
        return _described(error)
    told = "" if level.version == _OURS else f" (in {_shown(level)}, by {level.by})"
    return _described(error) + told


def _described(error: SyntaxError) -> str:
    return f"line {error.lineno}: {error.msg}"


def _shown(level: _Level) -> str:
    return "Python {}.{}".format(*level.version)


def _level(path: Path, workspace: Path) -> _Level | None:
    """Return the language level: what the project requires, else the interpreter it works with;
    None if neither is known."""
    inside = path.is_relative_to(workspace)
    folders = [each for each in path.parents if each.is_relative_to(workspace) or not inside]
    folders = folders if inside else folders[:1]
    found = (level for folder in folders for level in _required(folder))
    return next(found, None) or _of_interpreter(workspace)


def _required(folder: Path) -> Iterator[_Level]:
    bounds = []
    try:
        project = load_toml(_read(folder / "pyproject.toml"))
        bounds = [
            (project["project"]["requires-python"], "requires-python")
            if "requires-python" in project.get("project", {})
            else (project["tool"]["poetry"]["dependencies"]["python"], "pyproject.toml")
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        bounds = []
    for name in ("setup.cfg", "setup.py"):
        bounds += [(each, name) for each in _SETUP_BOUND.findall(_read(folder / name))]
    for bound, by in bounds:
        versions = [(int(a), int(b or 0)) for a, b in _BOUND.findall(str(bound))]
        if versions:
            yield _Level(max(versions), by)
    if version := _VERSION.match(_read(folder / ".python-version").strip()):
        yield _Level((int(version[1]), int(version[2])), ".python-version")


def _of_interpreter(workspace: Path) -> _Level | None:
    """Read the version from files and names: nothing of the workspace is run."""
    program = Path(interpreter_of(workspace, os.environ))
    settings = _read(program.parent.parent / "pyvenv.cfg")
    told = re.search(r"(?m)^version(?:_info)?\s*=\s*(\d+)\.(\d+)", settings)
    told = told or re.search(r"python(\d+)\.(\d+)$", os.path.realpath(program))
    return _Level((int(told[1]), int(told[2])), "the interpreter") if told else None


def _read(path: Path) -> str:
    return (read_private(path, _MAX_CHECKED_CHARACTERS) or b"").decode("utf-8", "replace")
