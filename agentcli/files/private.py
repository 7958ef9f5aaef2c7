"""Files and folders that are for our user alone."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

_REMOVAL_S = 10.0
"""Whoever is still alive there could go on filling it for ever."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def private_folder(parent: Path, name: str) -> Path:
    """Raises FileExistsError if it is there already."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = parent / name
    folder.mkdir(mode=0o700)
    return folder


def write_private(path: Path, data: bytes) -> Path:
    """A new file in place of what is there: commands may have put a link there. Raises OSError."""
    path.unlink(missing_ok=True)
    with open(_open_new(path), "wb") as file:
        file.write(data)
    return path


def read_private(path: Path, limit: int = 1 << 16) -> bytes | None:
    """What a command has written there, at most `limit` bytes; None unless it is a file that is
    no link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def reserve(path: Path) -> Path:
    """Creates `path` empty. Raises FileExistsError if something is there."""
    os.close(_open_new(path))
    return path


def _open_new(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


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
