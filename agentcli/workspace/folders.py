"""Folders opened one below the other, never through a symlink: to read, to walk, to restore."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from agentcli.workspace.private import (
    chmod_in,
    empty_folder,
    entered,
    link_open_file,
    read_regular,
    replacing,
)

_DEEPEST = 1_000
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootedFolder:
    """Opens paths relative to `top`. Raises OSError."""

    def __init__(self, top: Path) -> None:
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[bytes, int] | None = None

    def close(self) -> None:
        self.forget()
        os.close(self._top)

    def place(self, path: bytes) -> tuple[int, bytes]:
        """Return the parent folder of `path`, open until another is requested, and the last part of
        `path`."""
        above, _, name = path.rpartition(b"/")
        if name in (b"", b".", b"..") or path.startswith(b"/"):
            raise _outside()
        return self.folder(above), name

    def folder(self, path: bytes) -> int:
        """Return the folder at `path`, open until another is requested."""
        if self._open is None or self._open[0] != path:
            opened = self._open_folder(path)
            self.forget()
            self._open = (path, opened)
        return self._open[1]

    def inner(self, name: bytes) -> int:
        """Return the folder `name` in the folder that was requested last, in its place."""
        assert self._open is not None
        path = self._open[0] + b"/" + name if self._open[0] else name
        opened = self._enter(self._open[1], name, path)
        self.forget()
        self._open = (path, opened)
        return opened

    def open(self, path: bytes, flags: int) -> int:
        folder, name = self.place(path)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)

    def forget(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _open_folder(self, path: bytes) -> int:
        folder = os.dup(self._top)
        opened = b""
        for name in path.split(b"/") if path else []:
            if name in (b"", b".", b".."):
                os.close(folder)
                raise _outside()
            opened = opened + b"/" + name if opened else name
            above = folder
            try:
                folder = self._enter(above, name, opened)
            finally:
                os.close(above)
        return folder

    def _enter(self, above: int, name: bytes, path: bytes) -> int:
        """Open the folder `name` in the open folder `above`; `path` is where `name` is below
        `top`. Raises NotADirectoryError for a symlink too."""
        try:
            return os.open(name, _OPEN_FOLDER, dir_fd=above)
        except OSError as error:
            if error.errno == errno.ELOOP:  # what macOS says of a symlink
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
            raise


def walk(
    top: Path, on_error: Callable[[OSError], object] = lambda error: None
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder, and the names of the folders and of everything else in it, as `os.walk`
    does: the caller may remove folders, and links to folders are among them, but not followed.

    Commands may nest folders more deeply than the stack or a path allows. Those below
    `_DEEPEST` others are left out.
    """
    try:
        tree = RootedFolder(top)
    except OSError as error:
        on_error(error)
        return
    with contextlib.closing(tree):
        waiting, opened = [("", 0)], ""
        while waiting:
            below, depth = waiting.pop()
            above, _, name = below.rpartition("/")
            try:
                if below and above == opened:
                    handle = tree.inner(os.fsencode(name))
                else:
                    handle = tree.folder(os.fsencode(below))
                opened = below
                folders, links, others = _listed(handle)
            except OSError as error:
                on_error(error)
                continue
            yield top / below, folders, others
            if depth < _DEEPEST:
                inner = (name for name in reversed(folders) if name not in links)
                waiting += [(f"{below}/{name}" if below else name, depth + 1) for name in inner]


def _listed(folder: int) -> tuple[list[str], set[str], list[str]]:
    """Return what is in a folder: folders and links to some, those links, everything else."""
    folders: list[str] = []
    links: set[str] = set()
    others: list[str] = []
    with os.scandir(folder) as found:
        for entry in found:
            is_folder = False
            # A link may lead to what can't be looked at.
            with contextlib.suppress(OSError):
                is_folder = entry.is_dir()
            (folders if is_folder else others).append(entry.name)
            if entry.is_symlink():
                links.add(entry.name)
    return folders, links, others


def _outside() -> OSError:
    return OSError(0, "it is outside the workspace")


_TEMPORARY = b".agent-restore"
_MOST_NAMES = 100
_ENTER = 0o700
_WRITE = 0o300
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class FolderWriter(RootedFolder):
    """Changes what is below one folder. Folders are made writable for as long as necessary."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self._unlocked: dict[bytes, int] = {}
        self._is_root = os.geteuid() == 0

    def write_file(self, path: bytes, mode: int, fill: Callable[[BinaryIO], object]) -> None:
        folder, name = self.place(path)
        temporary = self._free_name(folder)
        with replacing(name, temporary, folder=folder) as file:
            fill(file)
            self._give_owner(folder, temporary, name)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))

    def make_link(self, path: bytes, target: bytes) -> None:
        folder, name = self.place(path)
        temporary = self._free_name(folder)
        os.symlink(target, temporary, dir_fd=folder)
        self._give_owner(folder, temporary, name)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def link(self, path: bytes, source: BinaryIO) -> None:
        """Give the open file `source` this name too."""
        folder, name = self.place(path)
        temporary = self._free_name(folder)
        link_open_file(source.fileno(), temporary, folder)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        # If both were names of the same file, the renaming did nothing.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)

    def make_folder(self, path: bytes) -> bool:
        """Create a folder, replacing anything else at that path. Return False if there was one."""
        try:
            folder, name = self.place(path)
        except FileNotFoundError:
            self.make_folder(path.rpartition(b"/")[0])
            folder, name = self.place(path)
        if (mode := _mode(folder, name)) is not None:
            if stat.S_ISDIR(mode):
                return False
            os.unlink(name, dir_fd=folder)
        os.mkdir(name, _ENTER, dir_fd=folder)
        self._give_owner(folder, name, b".")
        return True

    def remove(self, path: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            folder, name = self.place(path)
            os.unlink(name, dir_fd=folder)

    def remove_all(self, path: bytes) -> None:
        """Remove whatever is at `path`, with all that is below it."""
        try:
            folder, name = self.place(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        mode = _mode(folder, name)
        if mode is not None and not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=folder)
        elif mode is not None:
            inner = entered(name, folder)
            try:
                empty_folder(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)

    def remove_folder(self, path: bytes) -> bool:
        """Remove a folder; return False if there is still something in it."""
        try:
            folder, name = self.place(path)
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in _NOT_EMPTY:
                return False
            raise
        finally:
            self.forget()
        self._unlocked.pop(path, None)
        return True

    def holds(self, path: bytes, mode: int, data: bytes) -> bool:
        """Whether a file with exactly this content and mode is there."""
        folder, name = self.place(path)
        try:
            facts = os.lstat(name, dir_fd=folder)
            if facts.st_mode & 0o777 != stat.S_IMODE(mode) or facts.st_size != len(data):
                return False
            return read_regular(os.fsdecode(name), len(data) + 1, folder=folder)[0] == data
        except OSError:
            return False

    def set_mode(self, path: bytes, mode: int) -> None:
        """Set the mode of a file or folder, keeping a folder's setuid, setgid and sticky bits."""
        folder, name = self.place(path)
        facts = os.lstat(name, dir_fd=folder)
        wanted = stat.S_IMODE(mode)
        if stat.S_ISDIR(facts.st_mode):
            wanted |= facts.st_mode & 0o7000
        if stat.S_IMODE(facts.st_mode) != wanted:
            chmod_in(folder, name, wanted)

    def set_modes(self, modes: dict[bytes, int], failures: dict[bytes, str]) -> None:
        """Set the modes of folders, and restore those that were made writable temporarily."""
        pending = {**self._unlocked, **modes}
        while pending:
            self.forget()
            self._unlocked = {}
            for path in sorted(pending, reverse=True):
                try:
                    self.set_mode(path, pending[path])
                except OSError as error:
                    failures.setdefault(path, error.strerror or str(error))
                self._unlocked.pop(path, None)
            # Reaching these folders may have opened others.
            pending = self._unlocked

    def _open_folder(self, path: bytes) -> int:
        folder = super()._open_folder(path)
        mode = os.fstat(folder).st_mode
        if not self._is_root and mode & _WRITE != _WRITE:
            os.fchmod(folder, stat.S_IMODE(mode) | _ENTER)
            self._unlocked.setdefault(path, stat.S_IMODE(mode))
        return folder

    def _enter(self, above: int, name: bytes, path: bytes) -> int:
        try:
            return super()._enter(above, name, path)
        except PermissionError:
            mode = stat.S_IMODE(os.lstat(name, dir_fd=above).st_mode)
            chmod_in(above, name, mode | _ENTER)
            self._unlocked.setdefault(path, mode)
            return super()._enter(above, name, path)

    def _free_name(self, folder: int) -> bytes:
        """Return a name for a file until it is complete. What a killed restore left under this name
        is removed."""
        for number in range(_MOST_NAMES):
            name = _TEMPORARY + (b"-%d" % number if number else b"")
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                return name
            except OSError:
                # Someone else's folder.
                continue
            return name
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))

    def _give_owner(self, folder: int, made: bytes, like: bytes) -> None:
        """As root, give a file to the owner of what it replaces, or of the folder."""
        if not self._is_root:
            return
        try:
            facts = os.lstat(like, dir_fd=folder)
        except FileNotFoundError:
            facts = os.fstat(folder)
        with contextlib.suppress(PermissionError):
            os.chown(made, facts.st_uid, facts.st_gid, dir_fd=folder, follow_symlinks=False)


def _mode(folder: int, name: bytes) -> int | None:
    """Return the mode of what is there; None if nothing is."""
    with contextlib.suppress(FileNotFoundError):
        return os.lstat(name, dir_fd=folder).st_mode
    return None
