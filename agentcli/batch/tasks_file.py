"""Reads the tasks file, and finds all its faults before anything is begun."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from agentcli.batch.task import Task
from agentcli.errors import UsageError
from agentcli.git.cloning import is_url
from agentcli.system.homes import expanded
from agentcli.workspace.git_layout import GIT
from agentcli.workspace.private import NotRegular, read_regular

_MOST_BYTES = 200_000_000
_MOST_FAULTS = 10
_HALF = re.compile("[\ud800-\udfff]")
_IN_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is no field of a task",
    "string_pattern_mismatch": "is empty, or has characters that it can't have",
    "string_type": "must be text",
    "model_type": "must be an object with fields of its own",
}


@dataclass(frozen=True)
class TaskEntry:
    """A task and the line of the file on which it begins."""

    task: Task
    line: int


def read_tasks(path: Path) -> list[TaskEntry]:
    """Read a file of JSON with one task a line, or of YAML if its name says so. Raises UsageError
    that names all faults by line and field."""
    text = _text(path)
    entries = _of_yaml(text, path) if path.suffix in (".yaml", ".yml") else _of_json(text, path)
    found: list[TaskEntry] = []
    faults: list[str] = []
    first: dict[str, int] = {}
    for line, entry in entries:
        if isinstance(entry, str):
            faults.append(f"{path}:{line}: {entry}")
            continue
        problems, task = _checked(entry, path.absolute().parent)
        # The ids are names of folders, and not every file system tells A from a.
        if task is not None and (before := first.setdefault(task.id.lower(), line)) != line:
            problems.append(f"id: {task.id!r} is the id of the task of line {before}, too")
        faults += [f"{path}:{line}: {problem}" for problem in problems]
        if task is not None and not problems:
            found.append(TaskEntry(task, line))
    refuse(faults)
    if not found:
        raise UsageError(f"{path} has no task", hint=_EXAMPLE)
    return found


def refuse(faults: list[str]) -> None:
    """Raise UsageError with these faults, if there are any."""
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = [f"and {more} more"] if more > 0 else []
        raise UsageError(
            "\n  ".join(["nothing was begun:", *faults[:_MOST_FAULTS], *rest]), hint=_EXAMPLE
        )


_EXAMPLE = 'a task is {"id": "one", "prompt": "…", "repo": "DIR or URL", "ref": "main"} on one line'


def _text(path: Path) -> str:
    try:
        data, _ = read_regular(path, _MOST_BYTES + 1, follow=True)
    except NotRegular as error:
        raise UsageError(
            f"{path} is not a regular file", hint="save it: a second start reads the tasks again"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path} is longer than {_MOST_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: it is not UTF-8") from error


def _of_json(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line with its entry, or with its fault as text."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line, object_pairs_hook=_without_doubles)
        except (ValueError, RecursionError) as error:
            yield number, f"it is no JSON: {_syntax_fault(error)}"
        else:
            yield number, entry if isinstance(entry, dict) else "it is no JSON object"


def _syntax_fault(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"column {error.colno}: {error.msg.removesuffix(' at')}"
    return str(error)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a field is there twice: {max(names, key=names.count)}")
    return entry


def _of_yaml(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.SequenceNode):
            raise UsageError(f"{path}:1: it is no list of tasks", hint="begin each one with - id:")
        for node in root.value:
            line = node.start_mark.line + 1
            # The constructor silently takes the last of two equal keys.
            keys = [
                key.value for key, _ in getattr(node, "value", ()) if isinstance(key.value, str)
            ]
            double = next((key for key in keys if keys.count(key) > 1), None)
            entry = loader.construct_object(node, deep=True)
            if double is not None:
                yield line, f"a field is there twice: {double}"
            else:
                yield line, entry if isinstance(entry, dict) else "it is no task with fields"
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{path}:{line}: it is no YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: it is no YAML: {error}") from error


def _checked(entry: dict[str, Any], beside: Path) -> tuple[list[str], Task | None]:
    """Return the faults of an entry, and its task if it is one. Paths are relative to the file."""
    if any(_HALF.search(value) for value in entry.values() if isinstance(value, str)):
        return ["it has half of a character (a lone surrogate)"], None
    if nul := [name for name, value in entry.items() if isinstance(value, str) and "\0" in value]:
        return [f"{nul[0]}: it has a NUL character"], None
    try:
        task = Task.model_validate(entry)
    except ValidationError as error:
        return [_fault_in_words(fault) for fault in error.errors()], None
    if task.repo is not None and is_url(task.repo):
        return [], task
    name = "repo" if task.workspace is None else "workspace"
    place = (beside / expanded(getattr(task, name))).resolve()
    faults = [] if place.is_dir() else [f"{name}: there is no folder {place}"]
    if name == "workspace" and (place / GIT).is_file():
        faults = ["workspace: it is a worktree, which a copy can't be; name it as repo, with a ref"]
    return faults, task.model_copy(update={name: str(place)})


def _fault_in_words(fault: Any) -> str:
    field = ".".join(str(part) for part in fault["loc"])
    if fault["type"] in _IN_WORDS:
        return f"{field}: it {_IN_WORDS[fault['type']]}"
    told = fault["msg"].removeprefix("Value error, ")
    return f"{field}: {told}" if field else told
