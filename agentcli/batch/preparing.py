"""Makes orders of tasks, and finds all faults that can be known before anything is begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import load_builder
from agentcli.batch.folders import BatchFolders
from agentcli.batch.place import find_git, task_record
from agentcli.batch.task import Order, Task
from agentcli.batch.tasks_file import TaskEntry, refuse
from agentcli.errors import ConfigError
from agentcli.git.cloning import CloneFailed, without_login
from agentcli.git.mirrors import commits_of, mirror
from agentcli.llm.roles import Roles
from agentcli.settings import Settings
from agentcli.system.programs import user_environ
from agentcli.workspace.private import remove_tree

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
    refuse([f"{file}:{each.line}: {told}" for each in listed if (told := _changed(each, folders))])
    settings = _require_models(file, listed, folders, values, total_usd)
    repositories = _Repositories([each.task for each in listed], folders, tell)
    orders, faults = [], []
    for each in listed:
        try:
            orders.append(_order(each.task, folders, values, settings, repositories))
        except _TaskFault as wrong:
            faults.append(f"{file}:{each.line}: {wrong}")
    refuse(faults)
    return orders


class _TaskFault(Exception):
    """A fault in a field of a task; the text names the field."""


def _changed(each: TaskEntry, folders: BatchFolders) -> str:
    """Return why this is not the task that was begun under its id; empty if it is."""
    known = task_record(folders, each.task.id)
    if known is None or known.digest == each.task.digest:
        return ""
    return f"id: {each.task.id!r} was begun as another task; give it another id, or a new --out"


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
    first = {each.task.model: each for each in reversed(listed)}
    for name in dict.fromkeys(each.task.model for each in listed):
        limits = [each.task.limits.max_budget_usd for each in listed if each.task.model == name]
        own = {"agent.max_budget_usd": max(filter(None, limits))} if any(limits) else {}
        wanted = {"model.name": name} if name else {}
        builder, _ = load_builder(folders.out, {**values, **own, **limit, **wanted})
        if name is not None:
            _require_model(builder, f"{file}:{first[name].line}: model")
        builder.prepare()
    return usual.settings


def _require_model(builder: AgentBuilder, where: str) -> None:
    """Raise ConfigError that begins with `where` if the model can't be used."""
    settings = builder.settings
    try:
        Roles.of(settings, builder.registry(), settings.model.name).chain("main").warm_up()
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from error


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
        else:
            self._make(repo, kept)
        return commits_of(find_git(), kept, refs)

    def _make(self, repo: str, kept: Path) -> None:
        new = kept.with_suffix(".new")
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_tree(new)
        try:
            mirror(find_git(), repo, new, user_environ())
            new.rename(kept)
        finally:
            remove_tree(new)
