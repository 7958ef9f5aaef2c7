"""Files of the agent's own that several processes change: one at a time, each as a whole."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK_S = 5.0
"""A writer needs milliseconds; one that was stopped is not waited for."""
_LOCK_PAUSE_S = 0.01
_WRITABLE_BY_OTHERS = 0o022


def own_fault(facts: os.stat_result) -> str:
    """Why what a file says is not to be believed: it is another user's, or others may write to it.
    Root's word counts. "" if nothing is wrong."""
    if facts.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    return "others may write to it" if facts.st_mode & _WRITABLE_BY_OTHERS else ""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else who asks for it holds the lock of `path` meanwhile; its folder is made. Raises
    OSError, TimeoutError when another process does not let go of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(path.with_suffix(".lock"), flags, 0o600)
    deadline = time.monotonic() + _LOCK_S
    try:
        while not _taken(lock):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another agent is writing it and does not end")
            time.sleep(_LOCK_PAUSE_S)
        yield
    finally:
        os.close(lock)


def replace_file(path: Path, body: bytes) -> None:
    """Put `body` in the place of what `path` holds, durably and in one go; its mode stays, a new
    one is its owner's alone. The caller holds the lock. Raises OSError."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    # Nobody else uses this name; what a killed process left of it goes.
    made = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        made.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(made, flags, 0o600), "wb") as file:
            file.write(body)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
