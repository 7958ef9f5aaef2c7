"""The agent's own files, which only our user can access, and the only way to read a file that
others could have put there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

_LOCK_S = 5.0
"""A writer needs milliseconds. We do not wait longer: the other process may be stopped."""
_LOCK_PAUSE_S = 0.01
WRITABLE_BY_OTHERS = 0o022
"""Bits of a file's mode."""
REMOVAL_S = 10.0
"""A process that is still alive there could go on filling the folder forever."""
_ALL_TO_OWNER = 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# --- reading ------------------------------------------------------------------------------------


class NotRegular(OSError):
    """The path leads to a device, pipe or socket."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


def open_regular(path: Path | str, *, folder: int | None = None, follow: bool = False) -> BinaryIO:
    """Open the regular file at `path`, relative to the open `folder` if that is given.

    Never waits for a FIFO or wakes a device. A symlink as the last part of the path is followed
    only with `follow`. Raises OSError, NotRegular if it is not a regular file.
    """
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
    """Read the first `limit` bytes, or everything, from a file opened by `open_regular`."""
    with open_regular(path, folder=folder, follow=follow) as file:
        status = os.fstat(file.fileno())
        return file.read(limit), status


def read_private(path: Path, limit: int = 1 << 16, *, follow: bool = False) -> bytes | None:
    """Return at most `limit` bytes of a file that others may have written.

    Returns None if it is not a regular file, can't be read, or is a symlink without `follow`.
    """
    try:
        return read_regular(path, limit, follow=follow)[0]
    except OSError:
        return None


def ownership_fault(facts: os.stat_result) -> str:
    """Return why the content of a file can't be trusted, or "" if it can: it belongs to another
    user (root is trusted), or others may write to it."""
    if facts.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    return "other users may write to it" if facts.st_mode & WRITABLE_BY_OTHERS else ""


# --- writing ------------------------------------------------------------------------------------


def private_folder(parent: Path, name: str) -> Path:
    """Create a folder for our user alone. Raises FileExistsError if it already exists."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = parent / name
    folder.mkdir(mode=0o700)
    return folder


def write_private(path: Path, data: bytes) -> Path:
    """Write a new file in place of whatever is there, which may be a symlink that a command made.
    Raises OSError."""
    path.unlink(missing_ok=True)
    with open(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(data)
    return path


def reserve(path: Path) -> Path:
    """Create `path` as an empty file. Raises FileExistsError if something is there."""
    os.close(os.open(path, _NEW, 0o600))
    return path


def link_open_file(file: int, name: str | bytes, folder: int) -> None:
    """Give the open `file`, whatever its other names lead to by now, a name in the open `folder`.
    Linux only. Raises OSError."""
    # With a folder given, CPython calls linkat, the only call that follows this link.
    place = f"/proc/self/fd/{file}"
    os.link(place, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)


@contextmanager
def replacing(
    name: Path | str | bytes,
    temporary: Path | str | bytes,
    *,
    folder: int | None = None,
    mode: int = 0o600,
) -> Iterator[BinaryIO]:
    """Yield a new file, called `temporary` until the block has ended without an error, and then
    `name`; both are relative to the open `folder` if that is given. Raises OSError."""
    handle = os.open(temporary, _NEW, mode, dir_fd=folder)
    try:
        with open(handle, "wb") as file:
            yield file
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def replace_atomically(path: Path, *parts: bytes, shared: bool = False) -> None:
    """Replace `path` with a file of these `parts` that only its owner can access.

    It is not synced, so use this for data that can be made again. `shared`: several processes may
    do this at once. Raises OSError.
    """
    # A fixed temporary name lets the next write replace what a killed process left behind.
    process = f".{os.getpid()}" if shared else ""
    _replace(path, path.with_name(f".{path.name}{process}.new"), parts)


def dump_json(path: Path, value: Any, *, shared: bool = False) -> None:
    """Write JSON with `replace_atomically`."""
    replace_atomically(path, json.dumps(value).encode(), shared=shared)


def replace_durably(path: Path, body: bytes) -> None:
    """Replace the content of `path` atomically and sync it.

    An existing file keeps its mode; a new one is accessible to its owner alone. The caller holds
    the lock, or nobody else uses `path`. Raises OSError.
    """
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    # Nobody else uses this name; this replaces what a killed process left behind.
    _replace(path, path.with_name(f".{path.name}.new"), [body], mode, durable=True)
    sync_names(path.parent)


def copy_owner_and_mode(handle: int, owner: tuple[int, int], mode: int) -> None:
    """Give the open file this owner and group, and the permissions of `mode`. Raises OSError."""
    info = os.fstat(handle)
    if (info.st_uid, info.st_gid) != owner:
        # Only root may change the owner; otherwise keeping the content matters more.
        with suppress(OSError):
            os.fchown(handle, *owner)
    os.fchmod(handle, stat.S_IMODE(mode))


def sync_names(folder: Path) -> None:
    """Make sure that the entries of `folder` survive a crash of the computer. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_names_above(folder: Path) -> None:
    """Make sure that `folder` itself survives a crash, along with the folders above it that may
    have been made for it: those that hold nothing else. Raises OSError."""
    for parent in folder.parents:
        # A folder that we can write to but not read can't be synced.
        with suppress(PermissionError):
            sync_names(parent)
            if len(list(parent.iterdir())) == 1:
                continue
        return


def _replace(
    path: Path, made: Path, parts: Iterable[bytes], mode: int = 0o600, *, durable: bool = False
) -> None:
    made.unlink(missing_ok=True)
    with replacing(path, made) as file:
        file.writelines(parts)
        if durable:
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` for the duration, and create its folder. Raises OSError, TimeoutError
    if another process does not release it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(path.with_suffix(".lock"), flags, 0o600)
    deadline = time.monotonic() + _LOCK_S
    try:
        while not try_lock(lock):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another agent process keeps it locked")
            time.sleep(_LOCK_PAUSE_S)
        yield
    finally:
        os.close(lock)


def try_lock(lock: int) -> bool:
    """Lock the file behind this descriptor unless another process has it locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- removing -----------------------------------------------------------------------------------


def remove_tree(folder: Path, limit_s: float = REMOVAL_S) -> None:
    """Remove `folder` and everything in it, as far as possible within `limit_s` seconds, without
    following symlinks."""
    with suppress(OSError):
        top = entered(folder)
        try:
            empty_folder(top, limit_s)
        finally:
            os.close(top)
        folder.rmdir()


def empty_folder(top: int, limit_s: float = REMOVAL_S) -> None:
    """Remove everything in the open folder `top`, as `remove_tree` does. What is mounted there from
    another file system is not entered.

    Commands may nest folders more deeply than a path, the stack or the table of open files allows,
    so only the innermost is open, and each must still be in the one from which it was entered.
    """
    deadline = time.monotonic() + limit_s
    device = os.fstat(top).st_dev
    here = os.dup(top)
    trail: list[tuple[tuple[int, int], str]] = []
    waiting = [_files_removed(here, deadline)]
    try:
        while time.monotonic() < deadline:
            if waiting[-1]:
                name = waiting[-1].pop()
                with suppress(OSError):
                    inner = entered(name, here, device)
                    trail.append((_identity(here), name))
                    os.close(here)
                    here = inner
                    waiting.append(_files_removed(here, deadline))
            elif not trail:
                return
            else:
                waiting.pop()
                before, name = trail.pop()
                above = os.open("..", _FOLDER, dir_fd=here)
                os.close(here)
                here = above
                if _identity(here) != before:
                    return
                with suppress(OSError):
                    os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)


def entered(name: Path | str | bytes, folder: int | None = None, device: int | None = None) -> int:
    """Open a folder, relative to the open `folder` if that is given, so that it can be emptied,
    whatever its mode forbids its owner. Raises OSError, also for a symlink, and for one that is not
    on the `device` if that is given."""
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if device not in (None, info.st_dev):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    if info.st_mode & _ALL_TO_OWNER != _ALL_TO_OWNER and stat.S_ISDIR(info.st_mode):
        with suppress(OSError):
            chmod_in(folder, name, stat.S_IMODE(info.st_mode) | _ALL_TO_OWNER)
    return os.open(name, _FOLDER, dir_fd=folder)


def listable(
    name: Path | str | bytes, folder: int | None = None, *, closed_since_ns: int | None = None
) -> int:
    """Open a folder to list it; one whose mode forbids that to its owner gets another mode, if it
    was closed since then. Raises OSError, also for a symlink."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if closed_since_ns is None or info.st_ctime_ns < closed_since_ns:
            raise
        return entered(name, folder)


def chmod_in(folder: int | None, name: Path | str | bytes, mode: int) -> None:
    """Change a mode, but never that of a symlink's target. Raises OSError."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        Path(f"/proc/self/fd/{descriptor}").chmod(mode)
    finally:
        os.close(descriptor)


def _files_removed(folder: int, deadline: float) -> list[str]:
    """Remove what is no folder, and return the names of the folders."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if time.monotonic() > deadline:
            break
        if not is_folder:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in entries if is_folder]


def _identity(folder: int) -> tuple[int, int]:
    info = os.fstat(folder)
    return info.st_dev, info.st_ino


_FILE = "written-places.json"
_MOST = 500


def writable_paths(home: Path) -> list[str]:
    """Return the folders, newest last; none if the file in the agent's state folder `home` is
    missing or damaged."""
    try:
        found = json.loads((home / _FILE).read_bytes())
    except (OSError, ValueError):
        return []
    known = found if isinstance(found, list) else []
    return [place for place in known if isinstance(place, str) and place.startswith("/")]


def add_writable_paths(home: Path, folders: Iterable[Path]) -> None:
    """Add `folders` to the list; do nothing if it can't be written."""
    known = writable_paths(home)
    new = [str(folder) for folder in folders if str(folder) not in known]
    if not new:
        return
    with suppress(OSError):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        dump_json(home / _FILE, [*known, *new][-_MOST:], shared=True)


MOST_BYTES = 1_000_000_000
"""Default limit for all outputs of a session."""
DISK_BYTES = 50_000_000
"""Limit for one output."""


class OutputFolder:
    """Limits how much output is kept.

    Nothing is ever removed to make room, because the model has been told where it is. Once the
    folder is full, further output is not kept, and the model is told so.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most_bytes
        self._used: int | None = None
        self._logs: list[Path] = []
        self._lock = Lock()
        """Each command in the background writes from a thread of its own."""

    @property
    def full(self) -> str:
        """Why output is no longer kept, as part of a sentence."""
        return f"this session has reached its limit of {self._most:,} bytes of saved output"

    @property
    def room(self) -> int:
        """How many more bytes may be written."""
        if self._used is None:
            self._used = self._count()
        growing = sum(map(_size, self._logs))
        return max(0, self._most - self._used - growing)

    def take(self, wanted: int) -> int:
        """Reserve up to `wanted` bytes and return how many may be written."""
        with self._lock:
            taken = min(wanted, self.room)
            self._used = (self._used or 0) + taken
        return taken

    def give_back(self, count: int) -> None:
        """Undo `take` for bytes that were removed."""
        with self._lock:
            self._used = (self._used or 0) - count

    def new_path(self, name: str) -> Path:
        """Return an unused path: `name` with a number in place of `{}`."""
        paths = (self.path / name.replace("{}", str(number)) for number in count(1))
        return next(path for path in paths if not path.exists())

    def add(self, name: str, data: bytes) -> Path:
        """Write `data` to a new file named as by `new_path`. Raises OSError, also if there is no
        room."""
        if (taken := self.take(len(data))) < len(data):
            self.give_back(taken)
            raise OSError(self.full)
        path = reserve(self.new_path(name))
        path.write_bytes(data)
        return path

    def add_log(self, path: Path) -> None:
        """Add a new file that others write to; its current size always counts."""
        self._used = self._count() if self._used is None else self._used
        self._logs.append(path)

    def _count(self) -> int:
        with suppress(OSError), os.scandir(self.path) as entries:
            return sum(_size(Path(entry.path)) for entry in entries)
        return 0


def _size(path: Path) -> int:
    """Return how many bytes of a file count; capped, as a job can make its log any length."""
    with suppress(OSError):
        return min(path.lstat().st_size, DISK_BYTES)
    return 0
