"""Locks: one start of a batch at a time, and one process at a task."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcli.batch.folders import BatchFolders
from agentcli.errors import SessionError, UsageError, os_error_text
from agentcli.system.processes import process_stat
from agentcli.workspace.private import try_lock

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
    out, path = folders.out, folders.lock
    try:
        if out.exists() and not path.parent.is_dir() and any(out.iterdir()):
            raise UsageError(f"{out} has other things in it", hint="name a new folder with --out")
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(path, flags, 0o600)
    except OSError as error:
        raise UsageError(f"--out {out} can't be used: {os_error_text(error)}") from error
    try:
        _take(lock, folders)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid()}).encode(), 0)
        yield lock
    finally:
        os.close(lock)


@contextmanager
def held(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock `path` of a task, and with it the task's files and session alone; call `tell`
    while waiting for it. The kernel releases it with the process and the file server with the
    machine, so nobody has to judge whether a process elsewhere is dead. Raises SessionError if it
    is not released in time."""
    began = time.monotonic()
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not try_lock(lock):
            waited = time.monotonic() - began
            if waited > _PATIENCE_FOR_A_TASK_S:
                raise SessionError(f"{path} is still locked by a process that had the task before")
            if waited > _WORTH_TELLING_S:
                tell("waits for the process that had it to end")
            time.sleep(_PAUSE_S if waited < _WORTH_TELLING_S else 10 * _PAUSE_S)
        yield
    finally:
        os.close(lock)


def _take(lock: int, folders: BatchFolders) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not try_lock(lock):
        holder = _holder(lock)
        if (holder is not None and process_stat(holder)) or time.monotonic() > until:
            who = f"process {holder}" if holder is not None else "another process"
            raise UsageError(
                f"{folders.out} is in use by {who}", hint="wait for it, or name another --out"
            )
        time.sleep(_PAUSE_S)


def _holder(lock: int) -> int | None:
    try:
        return int(json.loads(os.pread(lock, 4096, 0))["pid"])
    except (ValueError, KeyError, TypeError):
        return None
