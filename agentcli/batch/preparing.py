"""Reads the tasks file and makes an order of each task; all faults are found before any begins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from agentcli.app.builders import load_builder
from agentcli.batch.folders import BatchFolders, find_git, task_record
from agentcli.batch.task import Order, Task
from agentcli.errors import ConfigError, UsageError
from agentcli.git.mirrors import CloneFailed, commits_of, is_url, mirror, without_login
from agentcli.llm.roles import Roles
from agentcli.settings import Settings
from agentcli.system.homes import expanded
from agentcli.system.programs import user_environ
from agentcli.workspace.private import NotRegular, read_regular, remove_tree
from agentcli.workspace.scope import GIT

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


TaskEntry = tuple[int, Task]
"""A task after the line of the file on which it begins."""


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
            found.append((line, task))
    _refuse(faults)
    if not found:
        raise UsageError(f"{path} has no task", hint=_EXAMPLE)
    return found


def _refuse(faults: list[str]) -> None:
    """Raise UsageError with these faults, if there are any."""
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = [f"and {more} more"] if more > 0 else []
        told = "\n  ".join(["nothing was begun:", *faults[:_MOST_FAULTS], *rest])
        raise UsageError(told, hint=_EXAMPLE)


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
            yield number, entry if isinstance(entry, dict) else "it is no JSON object"
        except json.JSONDecodeError as error:
            told = error.msg.removesuffix(" at")
            yield number, f"it is no JSON: column {error.colno}: {told}"
        except (ValueError, RecursionError) as error:
            yield number, f"it is no JSON: {error}"


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
            pairs = getattr(node, "value", ())
            keys = [key.value for key, _ in pairs if isinstance(key.value, str)]
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


_DEFAULT = "HEAD"
_LIMITS = {"max_turns": "agent.max_turns", "max_time_s": "agent.max_time_s"}


def prepared(
    file: Path,
    listed: Sequence[TaskEntry],
    folders: BatchFolders,
    values: Mapping[str, Any],
    total_usd: float | None,
    tell: Callable[[str], None],
) -> list[Order]:
    """Return an order for each task, in the same order. `values` are the settings for all tasks, by
    dotted key; `tell` is told what takes long. Raises UsageError that names lines and fields,
    ConfigError if a model can't be used or no sandbox works."""
    faults = []
    for line, task in listed:
        known = task_record(folders, task.id)
        if known is not None and known.digest != task.digest:
            way_out = "give it another id, or a new --out"
            faults.append(f"{file}:{line}: id: {task.id!r} was begun as another task; {way_out}")
    _refuse(faults)
    settings = _require_models(file, listed, folders, values, total_usd)
    repositories = _Repositories([task for _, task in listed], folders, tell)
    orders = []
    for line, task in listed:
        try:
            orders.append(_order(task, folders, values, settings, repositories))
        except _TaskFault as wrong:
            faults.append(f"{file}:{line}: {wrong}")
    _refuse(faults)
    return orders


class _TaskFault(Exception):
    """A fault in a field of a task; the text names the field."""


def _require_models(
    file: Path,
    listed: Sequence[TaskEntry],
    folders: BatchFolders,
    values: Mapping[str, Any],
    total_usd: float | None,
) -> Settings:
    """Require that each model can be used, and return the settings for a task that sets none.
    Raises ConfigError."""
    limit = {} if total_usd is None else {"agent.max_budget_usd": total_usd}
    usual, _ = load_builder(folders.out, values)
    first = {task.model: line for line, task in reversed(listed)}
    for name in dict.fromkeys(task.model for _, task in listed):
        limits = [task.limits.max_budget_usd for _, task in listed if task.model == name]
        own = {"agent.max_budget_usd": max(filter(None, limits))} if any(limits) else {}
        wanted = {"model.name": name} if name else {}
        builder, _ = load_builder(folders.out, {**values, **own, **limit, **wanted})
        if name is not None:
            try:
                Roles.of(builder.settings, builder.registry(), name).chain("main").warm_up()
            except ConfigError as error:
                told = f"{file}:{first[name]}: model: {error.message}"
                raise ConfigError(told, hint=error.hint) from error
        builder.prepare()
    return usual.settings


def _order(
    task: Task,
    folders: BatchFolders,
    values: Mapping[str, Any],
    settings: Settings,
    repositories: _Repositories,
) -> Order:
    given = task.limits.model_dump(exclude_none=True)
    wanted = {key: given[name] for name, key in _LIMITS.items() if name in given}
    if task.model:
        wanted["model.name"] = task.model
    kept, commit = ("", "") if task.repo is None else repositories.commit(task.repo, task.ref or "")
    own = [task.limits.max_budget_usd, settings.agent.max_budget_usd or None]
    return Order(
        task=task,
        out=str(folders.out),
        mirror=kept,
        commit=commit,
        values={**values, **wanted},
        own_usd=min((usd for usd in own if usd is not None), default=None),
    )


class _Repositories:
    """Mirrors of the tasks' repositories, each made once, and the commits that the tasks'
    references stand for."""

    def __init__(
        self, tasks: Sequence[Task], folders: BatchFolders, tell: Callable[[str], None]
    ) -> None:
        self._folders = folders
        self._tell = tell
        self._refs: dict[str, list[str]] = {}
        for task in tasks:
            if task.repo is not None:
                self._refs.setdefault(task.repo, []).append(task.ref or _DEFAULT)
        self._known: dict[str, dict[str, str] | str] = {}
        """For each repository the commits of its references, or why they can't be known."""

    def commit(self, repo: str, ref: str) -> tuple[str, str]:
        """Return the path of the mirror and the commit of `ref`. Raises _TaskFault."""
        if repo not in self._known:
            try:
                self._known[repo] = self._look_up(repo)
            except (CloneFailed, OSError) as error:
                self._known[repo] = f"repo: {without_login(repo)} can't be fetched: {error}"
        known = self._known[repo]
        if isinstance(known, str):
            raise _TaskFault(known)
        found = known.get(ref or _DEFAULT)
        if found is None:
            where = without_login(repo)
            told = f"ref: there is no commit, branch or tag {ref!r} in {where}"
            raise _TaskFault(told if ref else f"repo: {where} has no commit")
        return str(self._folders.mirror(repo)), found

    def _look_up(self, repo: str) -> dict[str, str]:
        """Return the commit of each reference. A mirror from an earlier start is fetched again only
        if it lacks one."""
        refs, kept = self._refs[repo], self._folders.mirror(repo)
        if kept.exists():
            found = commits_of(find_git(), kept, refs)
            if all(ref in found for ref in refs):
                return found
        self._tell(f"fetching {without_login(repo)}")
        if kept.exists():
            mirror(find_git(), repo, kept, user_environ())
            return commits_of(find_git(), kept, refs)
        new = kept.with_suffix(".new")
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_tree(new)
        try:
            mirror(find_git(), repo, new, user_environ())
            new.rename(kept)
        finally:
            remove_tree(new)
        return commits_of(find_git(), kept, refs)
