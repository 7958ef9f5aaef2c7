"""From tasks to orders: all that can be known to be wrong is told before anything is begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import builder_in
from agentcli.batch.folders import BatchFolders
from agentcli.batch.place import begun, find_git
from agentcli.batch.task import Order, Task
from agentcli.batch.tasks_file import Listed, refuse
from agentcli.errors import ConfigError
from agentcli.files.private import remove_tree
from agentcli.git.cloning import CloneFailed, without_login
from agentcli.git.mirrors import commits_of, mirror
from agentcli.llm.roles import Roles
from agentcli.settings import Settings
from agentcli.system.programs import person_environ

_DEFAULT = "HEAD"
_LIMITS = {"max_turns": "agent.max_turns", "max_time_s": "agent.max_time_s"}


def prepared(
    file: Path,
    listed: Sequence[Listed],
    folders: BatchFolders,
    values: Mapping[str, Any],
    total_usd: float | None,
    tell: Callable[[str], None],
) -> list[Order]:
    """An order for each task, in their order. `values` are the settings for all, by dotted key;
    `tell` is told what takes long. Raises UsageError that names lines and fields, ConfigError where
    a model can't be asked or nothing holds what commands do."""
    refuse([f"{file}:{each.line}: {told}" for each in listed if (told := _changed(each, folders))])
    settings = _require_models(file, listed, folders, values, total_usd)
    repositories = _Repositories([each.task for each in listed], folders, tell)
    orders, faults = [], []
    for each in listed:
        try:
            orders.append(_order(each.task, folders, values, settings, repositories))
        except _Wrong as wrong:
            faults.append(f"{file}:{each.line}: {wrong}")
    refuse(faults)
    return orders


class _Wrong(Exception):
    """What is wrong with a field of a task."""


def _changed(each: Listed, folders: BatchFolders) -> str:
    """Why a task is not the one that was begun under its id; else empty."""
    known = begun(folders, each.task.id)
    if known is None or known.digest == each.task.digest:
        return ""
    return f"id: {each.task.id!r} was begun as another task; give it another id, or a new --out"


def _require_models(
    file: Path,
    listed: Sequence[Listed],
    folders: BatchFolders,
    values: Mapping[str, Any],
    total_usd: float | None,
) -> Settings:
    """Require that each of the models can be asked; return the settings of a task that has none of
    its own."""
    limit = {} if total_usd is None else {"agent.max_budget_usd": total_usd}
    usual, _ = builder_in(folders.out, values)
    first = {each.task.model: each for each in reversed(listed)}
    for name in dict.fromkeys(each.task.model for each in listed):
        limits = [each.task.limits.max_budget_usd for each in listed if each.task.model == name]
        own = {"agent.max_budget_usd": max(filter(None, limits))} if any(limits) else {}
        wanted = {"model.name": name} if name else {}
        builder, _ = builder_in(folders.out, {**values, **own, **limit, **wanted})
        if name is not None:
            _require_model(builder, f"{file}:{first[name].line}: model")
        builder.prepare()
    return usual.settings


def _require_model(builder: AgentBuilder, where: str) -> None:
    """Raises ConfigError that begins with `where` for a model that can't be asked."""
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
    """The copies that are kept apart, each made once, and what the references of all tasks stand
    for in them."""

    def __init__(
        self, tasks: Sequence[Task], folders: BatchFolders, tell: Callable[[str], None]
    ) -> None:
        self._folders = folders
        self._tell = tell
        self._refs: dict[str, list[str]] = {}
        for task in tasks:
            if task.repo is not None:
                self._refs.setdefault(task.repo, []).append(task.ref or _DEFAULT)
        self._known: dict[str, dict[str, str]] = {}
        self._failed: dict[str, str] = {}

    def commit(self, repo: str, ref: str) -> tuple[str, str]:
        """The copy, and what `ref` stands for in it. Raises _Wrong."""
        if repo not in self._known and repo not in self._failed:
            try:
                self._known[repo] = self._look_up(repo)
            except (CloneFailed, OSError) as error:
                self._failed[repo] = f"repo: {without_login(repo)} can't be fetched: {error}"
        if repo in self._failed:
            raise _Wrong(self._failed[repo])
        found = self._known[repo].get(ref or _DEFAULT)
        if found is None:
            where = without_login(repo)
            told = f"ref: there is no commit, branch or tag {ref!r} in {where}"
            raise _Wrong(told if ref else f"repo: {where} has no commit")
        return str(self._folders.mirror(repo)), found

    def _look_up(self, repo: str) -> dict[str, str]:
        """One of an earlier start is fetched anew only for what it does not have."""
        refs, kept = self._refs[repo], self._folders.mirror(repo)
        if kept.exists():
            found = commits_of(find_git(), kept, refs)
            if all(ref in found for ref in refs):
                return found
        self._tell(f"fetching {without_login(repo)}")
        if kept.exists():
            mirror(find_git(), repo, kept, person_environ())
        else:
            self._make(repo, kept)
        return commits_of(find_git(), kept, refs)

    def _make(self, repo: str, kept: Path) -> None:
        new = kept.with_suffix(".new")
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_tree(new)
        try:
            mirror(find_git(), repo, new, person_environ())
            new.rename(kept)
        finally:
            remove_tree(new)
