"""Files and folders opened so that nobody can lead us elsewhere by swapping folders for symlinks.

A path is resolved first and judged by where it really leads. What was judged is then opened one
part at a time, each from the one before and never through a symlink: whatever happens to the tree
in between, this is the file that was judged or it is none.
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
from agentcli.files.names import display_path
from agentcli.files.private import open_regular

Judge = Callable[[Path], None]
"""Given a resolved path; raises ToolError where it is off limits."""

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PASSING = getattr(os, "O_PATH", os.O_RDONLY)
"""How a folder is opened that is only passed through: that needs no right to list it."""
_SWAPPED = (errno.ELOOP, errno.ENOTDIR)
_ATTEMPTS = 8


def open_file(path: Path, judge: Judge | None = None) -> int:
    """A handle to read the regular file at `path`, symlinks followed. Raises ToolError for what is
    no file and OSError; opening neither blocks on a FIFO nor wakes a device."""
    for _ in range(_ATTEMPTS):
        target = Path(os.path.realpath(path))
        if judge is not None:
            judge(target)
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
    raise _restless(path)


def open_folder(path: Path, *, make: bool) -> int:
    """A handle on the folder at the resolved `path`, made where missing if `make`; good for what
    is done relative to it. Raises OSError, also where a part of the path is a symlink by now."""
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
def opened_folder(path: Path) -> Iterator[int]:
    """A handle on the folder at the resolved `path` by which its entries can be listed. Raises
    OSError, also where a part of the path is a symlink by now."""
    place = open_folder(path, make=False)
    try:
        handle = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def opened_below(folder: int, place: str) -> Iterator[int]:
    """A handle on the folder at `place`, "" for `folder` itself, by which its entries can be
    listed; links are not followed. Raises OSError."""
    handle = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=folder)
    try:
        for part in filter(None, place.split("/")):
            inner = os.open(part, _FOLDER | os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def open_within(folder: int, name: str) -> BinaryIO:
    """The regular file `name`, which may have several parts, in the folder behind a handle; never
    through a symlink. Raises OSError, also for what is no regular file."""
    first, slash, rest = name.partition("/")
    if slash:
        inner = os.open(first, _FOLDER | _PASSING, dir_fd=folder)
        try:
            return open_within(inner, rest)
        finally:
            os.close(inner)
    return open_regular(name, folder=folder)


class Entry(NamedTuple):
    """Of a folder; `link` is what it points to, for a symlink."""

    name: str
    info: os.stat_result
    link: str


def list_folder(path: Path, judge: Judge | None = None) -> tuple[Path, list[Entry]]:
    """Where the folder at `path` really is, and its entries by name. Raises OSError."""
    for _ in range(_ATTEMPTS):
        target = Path(os.path.realpath(path))
        if judge is not None:
            judge(target)
        try:
            with opened_folder(target) as handle:
                return target, sorted(_entries(handle), key=lambda entry: entry.name)
        except OSError as error:
            if error.errno in _SWAPPED and path.is_dir():
                continue
            raise
    raise _restless(path)


def _entries(handle: int) -> Iterator[Entry]:
    for name in os.listdir(handle):
        # Gone since it was listed, as happens while something is built.
        with contextlib.suppress(FileNotFoundError):
            info = os.stat(name, dir_fd=handle, follow_symlinks=False)
            is_link = stat.S_ISLNK(info.st_mode)
            yield Entry(name, info, os.readlink(name, dir_fd=handle) if is_link else "")


def require_regular(mode: int, shown: str) -> None:
    """ToolError that says what it is for anything but a regular file."""
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
    """The path of an open file as its file system spells it, where the system tells (macOS): there
    `.SSH` opens `.ssh`, and only this name tells."""
    command = getattr(fcntl, "F_GETPATH", None)
    if command is None:
        return None
    told: bytes = fcntl.fcntl(handle, command, bytes(1024))
    return Path(os.fsdecode(told.rstrip(b"\0")))


def _checked(handle: int, path: Path, judge: Judge | None) -> int:
    try:
        require_regular(os.fstat(handle).st_mode, display_path(path))
        name = name_on_disk(handle)
        if judge is not None and name is not None:
            judge(name)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _leads_in_circles(path: Path) -> bool:
    """Unlike a folder that was swapped meanwhile, this stays so."""
    try:
        path.stat()
    except OSError as error:
        return error.errno in _SWAPPED
    return False


def _restless(path: Path) -> ToolError:
    return ToolError(
        f"{display_path(path)}: the folders on its path keep changing; stop what changes them "
        "(a command in the background?) and try again.",
        error_id="file_error",
    )
