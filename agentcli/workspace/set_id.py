"""Set-user-ID and set-group-ID bits: whoever starts a program that has one gets the rights of its
owner or group."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agentcli.workspace.opening import open_folder
from agentcli.workspace.private import listable

_SET_ID = stat.S_ISUID | stat.S_ISGID
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC


def hands_down_its_group(folder: Path) -> bool:
    """Return whether folders that are made in `folder` belong to its group and inherit the bit for
    that. Programs that change the mode of such a folder set the bit again."""
    with contextlib.suppress(OSError):
        return bool(folder.stat().st_mode & stat.S_ISGID)
    return False


def clear_set_id(top: Path, since_ns: int) -> Iterator[Path]:
    """Take the bits from the files below `top` whose status changed since then, and yield these
    files. Those of other users stay as they are."""
    with contextlib.suppress(OSError):
        for names, folder, entries in _folders(top, since_ns):
            for entry in entries:
                with contextlib.suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    is_new = info.st_mode & _SET_ID and info.st_ctime_ns >= since_ns
                    if is_new and _clear(folder, entry.name):
                        yield top.joinpath(*names, entry.name)


def _clear(folder: int, name: str) -> bool:
    """Return whether it is a file, and cleared. Raises OSError."""
    handle = os.open(name, _HANDLE, dir_fd=folder)
    try:
        info = os.fstat(handle)
        if is_file := stat.S_ISREG(info.st_mode):
            # A handle that only names a file can't be given to fchmod.
            place = f"/proc/self/fd/{handle}" if hasattr(os, "O_PATH") else handle
            os.chmod(place, stat.S_IMODE(info.st_mode) & ~_SET_ID)  # noqa: PTH101
        return is_file
    finally:
        os.close(handle)


def _folders(top: Path, since_ns: int) -> Iterator[tuple[list[str], int, list[os.DirEntry[str]]]]:
    """Yield `top` and the folders below it: the names that lead there, a handle, the entries. It
    goes down and up by handles, so that no depth is too much and no symlink is followed. Raises
    OSError if `top` can't be listed, or a folder is moved meanwhile."""
    names: list[str] = []
    trail: list[tuple[tuple[int, int], list[str]]] = []
    handle = open_folder(top, make=False)
    try:
        below: int | None = os.open(".", _FOLDER, dir_fd=handle)
        while below is not None or trail:
            if below is not None:
                os.close(handle)
                handle, below = below, None
                with os.scandir(handle) as scan:
                    entries = list(scan)
                yield names, handle, entries
                inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                trail.append((_identity(handle), inner))
            elif inner := trail[-1][1]:
                name = inner.pop()
                with contextlib.suppress(OSError):
                    below = listable(name, handle, closed_since_ns=since_ns)
                    names.append(name)
            else:
                trail.pop()
                if trail:
                    names.pop()
                    above = os.open("..", _FOLDER, dir_fd=handle)
                    os.close(handle)
                    handle = above
                    if _identity(handle) != trail[-1][0]:
                        raise OSError(f"{'/'.join(names)} was moved")
    finally:
        os.close(handle)


def _identity(handle: int) -> tuple[int, int]:
    info = os.fstat(handle)
    return info.st_dev, info.st_ino
