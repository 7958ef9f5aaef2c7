"""The agent's own files, for our user alone, and the one way to read a file that others could have
put there."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

_LOCK_S = 5.0
"""A writer needs milliseconds; one that was stopped is not waited for."""
_LOCK_PAUSE_S = 0.01
_WRITABLE_BY_OTHERS = 0o022
_REMOVAL_S = 10.0
"""Whoever is still alive there could go on filling it for ever."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# --- reading ------------------------------------------------------------------------------------


class NotRegular(OSError):
    """A device, pipe or socket."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


def open_regular(path: Path | str, *, folder: int | None = None, follow: bool = False) -> BinaryIO:
    """The regular file at `path`, relative to the open `folder` if that is given. Never waits for
    a FIFO or wakes a device, and follows a link as the last part of the path only with `follow`.
    Raises OSError, NotRegular where something else is there."""
    handle = os.open(path, _READ | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return open(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotRegular(path)


def read_regular(
    path: Path | str, limit: int = -1, *, folder: int | None = None, follow: bool = False
) -> tuple[bytes, os.stat_result]:
    """The first `limit` bytes, or all, of what `open_regular` opens."""
    with open_regular(path, folder=folder, follow=follow) as file:
        status = os.fstat(file.fileno())
        return file.read(limit), status


def read_private(path: Path, limit: int = 1 << 16, *, follow: bool = False) -> bytes | None:
    """At most `limit` bytes of a file that others may have written; None if it is no regular file,
    can't be read, or is a link and `follow` is not set."""
    try:
        return read_regular(path, limit, follow=follow)[0]
    except OSError:
        return None


def ownership_fault(facts: os.stat_result) -> str:
    """Why a file's content can't be trusted: it belongs to another user, or others may write to it.
    Files of root are trusted. "" if nothing is wrong."""
    if facts.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    return "others may write to it" if facts.st_mode & _WRITABLE_BY_OTHERS else ""


# --- writing ------------------------------------------------------------------------------------


def private_folder(parent: Path, name: str) -> Path:
    """Raises FileExistsError if it is there already."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = parent / name
    folder.mkdir(mode=0o700)
    return folder


def write_private(path: Path, data: bytes) -> Path:
    """A new file in place of what is there: commands may have put a link there. Raises OSError."""
    path.unlink(missing_ok=True)
    with open(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(data)
    return path


def reserve(path: Path) -> Path:
    """Creates `path` empty. Raises FileExistsError if something is there."""
    os.close(os.open(path, _NEW, 0o600))
    return path


def replace_atomically(path: Path, *parts: bytes, shared: bool = False) -> None:
    """Put a file of these `parts`, its owner's alone, in the place of `path`. For what can be made
    again: it is not synced. `shared`: several processes may be at it. Raises OSError."""
    # What a killed process left of a name that is always the same goes with the next write.
    own = f".{os.getpid()}" if shared else ""
    _replace(path, path.with_name(f".{path.name}{own}.new"), parts)


def dump_json(path: Path, value: Any, *, shared: bool = False) -> None:
    """`replace_atomically` with JSON."""
    replace_atomically(path, json.dumps(value).encode(), shared=shared)


def replace_durably(path: Path, body: bytes) -> None:
    """Put `body` in the place of what `path` holds, synced and in one go; its mode stays, a new
    one is its owner's alone. The caller holds the lock, or `path` is a name of its own. Raises
    OSError."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    # Nobody else uses this name; what a killed process left of it goes.
    _replace(path, path.with_name(f".{path.name}.new"), [body], mode, durable=True)
    sync_names(path.parent)


def sync_names(folder: Path) -> None:
    """What is in `folder` is found there after a crash of the computer, too. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_names_above(folder: Path) -> None:
    """So is `folder`, with the folders above it that may have been made for it: those that hold
    nothing else. Raises OSError."""
    for parent in folder.parents:
        # One that can be written to but not read can't be synced.
        with suppress(PermissionError):
            sync_names(parent)
            if len(list(parent.iterdir())) == 1:
                continue
        return


def _replace(
    path: Path, made: Path, parts: Iterable[bytes], mode: int = 0o600, *, durable: bool = False
) -> None:
    made.unlink(missing_ok=True)
    try:
        with open(os.open(made, _NEW, 0o600), "wb") as file:
            file.writelines(parts)
            file.flush()
            if durable:
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise


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


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- removing -----------------------------------------------------------------------------------


def remove_tree(folder: Path) -> None:
    """Removes `folder` with what commands have put there, as far as that can be removed; symlinks
    are not followed. Folders are moved up one by one, for they may lie deeper within each other
    than a path, a stack or the table of open files reaches."""
    with suppress(OSError):
        top = os.open(folder, _FOLDER)
        try:
            deadline = time.monotonic() + _REMOVAL_S
            while _emptied_some(top) and time.monotonic() < deadline:
                pass
        finally:
            os.close(top)
        folder.rmdir()


def _emptied_some(top: int) -> bool:
    """Whether anything that was in `top` could be removed or moved."""
    done = False
    for name in os.listdir(top):
        with suppress(OSError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=top)
            else:
                done |= _move_up(name, top)
                os.rmdir(name, dir_fd=top)
            done = True
    return done


def _move_up(name: str, top: int) -> bool:
    """Takes what is in the folder `name` of `top` out of it; whether anything could be taken."""
    done = False
    inner = os.open(name, _FOLDER, dir_fd=top)
    try:
        for inside in os.listdir(inner):  # noqa: PTH208 - of a descriptor
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(inside, dir_fd=inner, follow_symlinks=False).st_mode):
                    os.rename(inside, os.urandom(16).hex(), src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(inside, dir_fd=inner)
                done = True
    finally:
        os.close(inner)
    return done
