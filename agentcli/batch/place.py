"""Where one task works: its files, what they were at first, and the session that works on them."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentcli.app.copies import require_no_secrets
from agentcli.batch.folders import BatchFolders
from agentcli.batch.locking import held
from agentcli.batch.task import Order
from agentcli.errors import ConfigError, SessionError
from agentcli.git.cloning import CloneFailed
from agentcli.git.mirrors import WatchedTree, begin_repository, check_out
from agentcli.sessions.search.finder import new_folder
from agentcli.system.homes import state_home
from agentcli.system.programs import find_program, user_environ
from agentcli.workspace.git_layout import GIT
from agentcli.workspace.private import read_private, remove_tree, replace_durably

_MOST_PATCH_BYTES = 50_000_000


@dataclass(frozen=True)
class TaskRecord:
    """What is recorded of a task once its files are there, before the agent begins: a digest of the
    task, its session, the tree or commit `base` that its files were at first, and `worked_s`, the
    seconds that earlier processes worked."""

    digest: str
    session: str
    base: str
    worked_s: float = 0.0

    @property
    def session_folder(self) -> Path:
        return state_home(user_environ()) / "sessions" / self.session


def task_record(folders: BatchFolders, task_id: str) -> TaskRecord | None:
    """Return what is recorded of a task; None if it was not begun."""
    data = read_private(folders.task(task_id) / "begun.json")
    if data is None:
        return None
    try:
        values: dict[str, Any] = json.loads(data)
        return TaskRecord(**values)
    except (ValueError, TypeError) as error:
        raise SessionError(f"{folders.task(task_id) / 'begun.json'} is damaged: {error}") from error


class TaskPlace:
    """The files and the record of the task of `order`, as earlier processes left them, after a kill
    too."""

    def __init__(self, order: Order) -> None:
        folders = BatchFolders(Path(order.out))
        self._order = order
        self._folders = folders
        self.private_folder = folders.task(order.task.id)
        """For what is known of the task, and for what runs beside its session."""
        self._git = find_git()
        self.workspace = folders.workspace(order.task.id)
        self._watched = WatchedTree(self._git, self.private_folder / "git", self.workspace)

    @contextmanager
    def held(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Have the task for this process alone, among all machines; `tell` is called while waiting.
        Raises SessionError if another process keeps it."""
        self.private_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(self.private_folder / "lock", tell):
            yield

    def prepare(self, home: Path) -> TaskRecord:
        """Copy the files, record the session that will work on them, and return the record; if
        there is one, return that. Raises ConfigError if the files can't be copied."""
        known = task_record(self._folders, self._order.task.id)
        if known is not None:
            return known
        try:
            self.private_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fill()
            base = self._watch()
        except (CloneFailed, shutil.Error, OSError) as error:
            raise ConfigError(f"its files can't be copied: {_why(error)}") from error
        # Many may begin in one second, on several machines.
        session = f"{new_folder(home).name}-{secrets.token_hex(4)}"
        made = TaskRecord(self._order.task.digest, session, base)
        self._record(made)
        return made

    def add_time(self, known: TaskRecord, seconds: float) -> None:
        """Record `seconds` of work that came to no result."""
        self._record(TaskRecord(**{**asdict(known), "worked_s": known.worked_s + seconds}))

    def patch(self, base: str) -> str:
        """Return the patch from `base` to the files as they are. Raises ConfigError if it can't be
        made."""
        try:
            made = self._watched.patch(base, self._watched.tree())
        except (CloneFailed, OSError) as error:
            raise ConfigError(f"its patch can't be made: {_why(error)}") from error
        if len(made) > _MOST_PATCH_BYTES:
            told = f"its patch is larger than {_MOST_PATCH_BYTES // 1_000_000} MB"
            raise ConfigError(told, hint=f"the files are in {self.workspace}")
        return made.decode("utf-8", "surrogateescape")

    def _record(self, known: TaskRecord) -> None:
        replace_durably(self.private_folder / "begun.json", json.dumps(asdict(known)).encode())

    def _fill(self) -> None:
        """Copy the files. Nothing is recorded yet, so what is there is left from a failed
        attempt."""
        for left in (self.workspace, self.private_folder / "git"):
            if os.path.lexists(left):
                remove_tree(left)
        self.workspace.parent.mkdir(mode=0o700, exist_ok=True)
        if self._order.mirror:
            check_out(self._git, Path(self._order.mirror), self._order.commit, self.workspace)
            return
        source = Path(self._order.task.workspace or "")
        require_no_secrets(source, user_environ())
        try:
            shutil.copytree(source, self.workspace, symlinks=True, ignore=self._left_out)
        except RecursionError as error:
            raise OSError(errno.ENAMETOOLONG, "its folders are nested too deeply") from error
        if not (self.workspace / GIT).exists():
            # Without a repository of its own it would be part of the one that the batch is in.
            begin_repository(self._git, self.workspace)

    def _left_out(self, folder: str, names: Iterable[str]) -> list[str]:
        """Return what is not copied: sockets, pipes, devices, and the batch's own output."""
        found = []
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - one for each file
            mode = os.lstat(path).st_mode
            regular = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
            if not regular or path == str(self._folders.out):
                found.append(name)
        return found

    def _watch(self) -> str:
        if self._order.mirror:
            self._watched.begin(Path(self._order.mirror), self._order.commit)
            return self._order.commit
        self._watched.begin()
        return self._watched.tree()


def find_git() -> str:
    """Return the path of git. Raises ConfigError if there is none."""
    git = find_program("git")
    if git is None:
        raise ConfigError("a batch needs git, which is not installed")
    return git


def _why(error: Exception) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][-1])
    return str(error)
