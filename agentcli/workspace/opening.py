"""Opens files and folders so that nobody can redirect us by swapping folders for symlinks.

A path is resolved first and judged by where it really leads. The judged path is then opened one
part at a time, each relative to the one before and never through a symlink. Whatever happens to the
tree in between, we open the file that was judged or none.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agentcli.errors import ToolError
from agentcli.workspace.names import display_path
from agentcli.workspace.private import listable, open_regular

Judge = Callable[[Path], None]
"""Takes a resolved path; raises ToolError if it is off limits."""

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PASSING = getattr(os, "O_PATH", os.O_RDONLY)
"""Flags for a folder that is only passed through, which needs no right to list it."""
_SWAPPED = (errno.ELOOP, errno.ENOTDIR)
_ATTEMPTS = 8


def open_file(path: Path, judge: Judge) -> int:
    """Return a handle to read the regular file at `path`, following symlinks. Opening never blocks
    on a FIFO or wakes a device. Raises OSError, ToolError if it is not a file."""
    for target in _judged(path, judge):
        try:
            folder = open_folder(target.parent, make=False)
            try:
                info = os.stat(target.name or ".", dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISLNK(info.st_mode):
                    require_regular(info.st_mode, display_path(path))
                handle = os.open(target.name, _FILE, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno in _SWAPPED and not _leads_in_circles(path):
                continue
            raise
        return _checked(handle, path, judge)
    raise AssertionError("the attempts end with an error")


def _judged(path: Path, judge: Judge) -> Iterator[Path]:
    """Yield where `path` leads, after judging it, anew for each attempt to open it. Raises
    ToolError when there were too many."""
    for _ in range(_ATTEMPTS):
        target = Path(os.path.realpath(path))
        judge(target)
        yield target
    raise ToolError(
        f"{display_path(path)}: the folders on its path keep changing; stop what changes them "
        "(a command in the background?) and try again.",
        error_id="file_error",
    )


def open_folder(path: Path, *, make: bool) -> int:
    """Return a handle on the folder at the resolved `path` for operations relative to it; `make`
    creates missing folders. Raises OSError, also if a part of the path is now a symlink."""
    handle = os.open(path.anchor, _FOLDER | _PASSING)
    for part in path.parts[1:]:
        try:
            try:
                inner = os.open(part, _FOLDER | _PASSING, dir_fd=handle)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
                inner = os.open(part, _FOLDER | _PASSING, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


@contextlib.contextmanager
def opened_folder(path: Path, *, forced: bool = False) -> Iterator[int]:
    """Yield a handle on the folder at the resolved `path` that can list its entries; `forced` lets
    its owner do so. Raises OSError, also if a part of the path is now a symlink."""
    place = open_folder(path, make=False)
    try:
        with opened_below(place, "", forced=forced) as handle:
            yield handle
    finally:
        os.close(place)


@contextlib.contextmanager
def opened_below(folder: int, place: str, *, forced: bool = False) -> Iterator[int]:
    """Yield a handle that can list the folder at `place` below `folder`, where "" is `folder`
    itself. A folder whose mode forbids its owner to list it gets another mode if that is `forced`:
    programs that know a name find it there all the same. Does not follow symlinks. Raises
    OSError."""
    closed_since_ns = 0 if forced else None
    handle = listable(".", folder, closed_since_ns=closed_since_ns)
    try:
        for part in filter(None, place.split("/")):
            inner = listable(part, handle, closed_since_ns=closed_since_ns)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def open_within(folder: int, name: str) -> BinaryIO:
    """Open the regular file `name` in the folder behind a handle. `name` may have several parts;
    symlinks are never followed. Raises OSError, also if it is not a regular file."""
    above, _, name = name.rpartition("/")
    with opened_below(folder, above) as inner:
        return open_regular(name, folder=inner)


class Entry(NamedTuple):
    """An entry of a folder; `link` is the target if it is a symlink."""

    name: str
    info: os.stat_result
    link: str


def list_folder(path: Path, judge: Judge) -> tuple[Path, list[Entry]]:
    """Return the real path of the folder at `path` and its entries sorted by name. Raises
    OSError."""
    for target in _judged(path, judge):
        try:
            with opened_folder(target) as handle:
                return target, sorted(_entries(handle), key=lambda entry: entry.name)
        except OSError as error:
            if not (error.errno in _SWAPPED and path.is_dir()):
                raise
    raise AssertionError("the attempts end with an error")


def _entries(handle: int) -> Iterator[Entry]:
    for name in os.listdir(handle):
        # The entry may have vanished since it was listed, as happens during a build.
        with contextlib.suppress(FileNotFoundError):
            info = os.stat(name, dir_fd=handle, follow_symlinks=False)
            is_link = stat.S_ISLNK(info.st_mode)
            yield Entry(name, info, os.readlink(name, dir_fd=handle) if is_link else "")


def require_regular(mode: int, shown: str) -> None:
    """Raise a ToolError that names the kind of file unless it is a regular file."""
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    kind = kinds.get(stat.S_IFMT(mode), "something special")
    raise ToolError(f"{shown} is {kind}, not a file.", error_id="not_a_file")


def name_on_disk(handle: int) -> Path | None:
    """Return the path of an open file as its file system spells it, where the system tells (macOS).
    `.SSH` opens `.ssh` there, and only this name reveals it."""
    command = getattr(fcntl, "F_GETPATH", None)
    if command is None:
        return None
    told: bytes = fcntl.fcntl(handle, command, bytes(1024))
    return Path(os.fsdecode(told.rstrip(b"\0")))


def _checked(handle: int, path: Path, judge: Judge) -> int:
    try:
        require_regular(os.fstat(handle).st_mode, display_path(path))
        if (name := name_on_disk(handle)) is not None:
            judge(name)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _leads_in_circles(path: Path) -> bool:
    """Return whether `path` is a symlink loop, which unlike a swapped folder is permanent."""
    try:
        path.stat()
    except OSError as error:
        return error.errno in _SWAPPED
    return False


_SET_ID = stat.S_ISUID | stat.S_ISGID
_SET_ID_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
        below: int | None = os.open(".", _SET_ID_FOLDER, dir_fd=handle)
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
                    above = os.open("..", _SET_ID_FOLDER, dir_fd=handle)
                    os.close(handle)
                    handle = above
                    if _identity(handle) != trail[-1][0]:
                        raise OSError(f"{'/'.join(names)} was moved")
    finally:
        os.close(handle)


def _identity(handle: int) -> tuple[int, int]:
    info = os.fstat(handle)
    return info.st_dev, info.st_ino
