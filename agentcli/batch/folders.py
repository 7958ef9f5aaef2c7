"""The output folder of a batch: where things are, its locks, and the files of each task."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentcli.app.fork import require_no_secrets
from agentcli.batch.task import Order
from agentcli.errors import ConfigError, SessionError, UsageError, os_error_text
from agentcli.git.mirrors import CloneFailed, WatchedTree, begin_repository, check_out
from agentcli.sessions.finder import new_folder
from agentcli.system.homes import state_home
from agentcli.system.processes import process_stat
from agentcli.system.programs import find_program, user_environ
from agentcli.workspace.private import read_private, remove_tree, replace_durably, try_lock
from agentcli.workspace.scope import GIT


@dataclass(frozen=True)
class BatchFolders:
    """`results.jsonl`, `summary.md` and `outcome.svg` are for people, `work` has a folder for each
    task, and `.batch` is internal: the lock, the logs and the record of each task."""

    out: Path

    @property
    def internal(self) -> Path:
        return self.out / ".batch"

    @property
    def log(self) -> Path:
        return self.internal / "log"

    def mirror(self, repo: str) -> Path:
        """Return the mirror from which the copies of a repository are made."""
        name = hashlib.sha256(repo.encode()).hexdigest()[:16]
        return self.internal / "repositories" / f"{name}.git"

    def workspace(self, task_id: str) -> Path:
        return self.out / "work" / task_id

    def task(self, task_id: str) -> Path:
        """Return the folder for the record of a task that was begun."""
        return self.internal / "tasks" / task_id


_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_PATIENCE_S = 20.0
"""How long workers of a killed start have to record what they were doing."""
_PAUSE_S = 0.05
_PATIENCE_FOR_A_TASK_S = 600.0
"""How long to wait for the lock of a machine that is gone: the file server releases it when the
machine's lease is over, after 90 seconds with Linux's NFS."""
_WORTH_TELLING_S = 1.0


@contextmanager
def locked(folders: BatchFolders) -> Iterator[int]:
    """Lock the output folder, which is made if it does not exist; yield the lock's descriptor.
    Raises UsageError if another start uses the folder, if it has other things in it or if it can't
    be made."""
    out, internal = folders.out, folders.internal
    try:
        if out.exists() and not internal.is_dir() and any(out.iterdir()):
            raise UsageError(f"{out} has other things in it", hint="name a new folder with --out")
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        internal.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(internal / "lock", _LOCK_FLAGS, 0o600)
    except OSError as error:
        raise UsageError(f"--out {out} can't be used: {os_error_text(error)}") from error
    try:
        until = time.monotonic() + _PATIENCE_S
        while not try_lock(lock):
            holder = _holder(lock)
            if (holder is not None and process_stat(holder)) or time.monotonic() > until:
                who = f"process {holder}" if holder is not None else "another process"
                hint = "wait for it, or name another --out"
                raise UsageError(f"{out} is in use by {who}", hint=hint)
            time.sleep(_PAUSE_S)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid()}).encode(), 0)
        yield lock
    finally:
        os.close(lock)


def _holder(lock: int) -> int | None:
    try:
        return int(json.loads(os.pread(lock, 4096, 0))["pid"])
    except (ValueError, KeyError, TypeError):
        return None


_MOST_PATCH_BYTES = 50_000_000


@dataclass(frozen=True)
class TaskRecord:
    """The record of a task, made once its files exist and before the agent begins: a digest of the
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
    """Return the record of a task; None if it was not begun."""
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
        """For the task's record, and for its check."""
        self._git = find_git()
        self.workspace = folders.workspace(order.task.id)
        self._watched = WatchedTree(self._git, self.private_folder / "git", self.workspace)

    @contextmanager
    def held(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Hold the task's files and session for this process alone, among all machines; `tell` is
        called while waiting. The kernel releases the lock with the process and the file server with
        the machine, so nobody has to judge whether a process elsewhere is dead. Raises SessionError
        if it is not released in time."""
        self.private_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, began = self.private_folder / "lock", time.monotonic()
        lock = os.open(path, _LOCK_FLAGS, 0o600)
        try:
            while not try_lock(lock):
                waited = time.monotonic() - began
                if waited > _PATIENCE_FOR_A_TASK_S:
                    told = f"{path} is still locked by a process that had the task before"
                    raise SessionError(told)
                if waited > _WORTH_TELLING_S:
                    tell("waits for the process that had it to end")
                time.sleep(_PAUSE_S if waited < _WORTH_TELLING_S else 10 * _PAUSE_S)
            yield
        finally:
            os.close(lock)

    def prepare(self, home: Path) -> TaskRecord:
        """Copy the files, record the session that will work on them, and return the record; if
        there is one, return that. Raises ConfigError if the files can't be copied."""
        known = task_record(self._folders, self._order.task.id)
        if known is not None:
            return known
        try:
            self._fill()
            if self._order.mirror:
                base = self._order.commit
                self._watched.begin(Path(self._order.mirror), base)
            else:
                self._watched.begin()
                base = self._watched.tree()
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
        """Return the names not to copy: sockets, pipes, devices, and the batch's own output."""
        found = []
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - one for each file
            mode = os.lstat(path).st_mode
            regular = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
            if not regular or path == str(self._folders.out):
                found.append(name)
        return found


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
