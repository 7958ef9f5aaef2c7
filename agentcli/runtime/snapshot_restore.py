"""Brings a folder to the state of a snapshot, without ever writing outside it.

Folders are opened one below the other and never through a symlink; a file gets its name when it is
complete, with its mode.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from agentcli.runtime.snapshot_git import CheckpointError
from agentcli.runtime.snapshot_objects import ObjectStore
from agentcli.runtime.snapshot_trees import Difference, Entry

_TEMPORARY = b".agent-restore"
_TEMPORARY_FOLDER = b".agent-restore.git"
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = 0o700
_WRITE = 0o300


class Restorer:
    """Applies differences below `top`, which must exist. What went wrong is in `failures`, by
    path; folders that stay because of what else is in them are in `kept`; all else is done."""

    def __init__(self, top: Path, objects: ObjectStore) -> None:
        self._writer = _Writer(top)
        self._objects = objects
        self.failures: dict[bytes, str] = {}
        self.kept: set[bytes] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def apply(self, differences: Sequence[Difference]) -> None:
        """`differences` in the order of `Trees.compare`: folders before what is in them."""
        for difference in reversed(differences):
            if difference.old is not None and _makes_way(difference.old, difference.new):
                with self._reporting(difference.path):
                    self._remove(difference)
        modes = {d.path: d.new.mode for d in differences if d.new is not None and d.new.is_folder}
        for path in modes:
            with self._reporting(path):
                self._writer.make_folder(path)
        for difference in differences:
            if difference.new is not None and not difference.new.is_folder:
                with self._reporting(difference.path):
                    self._write(difference.path, difference.old, difference.new)
        self._writer.set_modes(modes, self.failures)

    def bring_repository(self, path: bytes, content: Sequence[Difference], links: Path) -> None:
        """Makes the missing folder `path`, the first of `content`, with `links` as its objects. It
        gets its name when it is whole, as nothing touches it from then on."""
        above = path.rpartition(b"/")[0]
        building = above + b"/" + _TEMPORARY_FOLDER if above else _TEMPORARY_FOLDER
        with self._reporting(path):
            self._writer.remove_tree(building)
        moved = [Difference(building + d.path[len(path) :], d.old, d.new) for d in content]
        self.apply(moved)
        with self._reporting(path):
            for name in (b"info", b"pack"):
                self._writer.make_folder(building + b"/objects/" + name)
            for source in sorted(links.glob("*/*")):
                target = os.fsencode(source.relative_to(links))
                self._writer.link(source, building + b"/objects/" + target)
            fans = {
                building + b"/objects/" + os.fsencode(folder.name) for folder in links.iterdir()
            }
            self._writer.set_modes(dict.fromkeys(fans, 0o755), self.failures)
        failed = [name for name in self.failures if name.startswith(building)]
        for name in failed:
            self.failures[path + name[len(building) :]] = self.failures.pop(name)
        if not failed and path not in self.failures:
            with self._reporting(path):
                self._writer.rename(building, path)

    def _remove(self, difference: Difference) -> None:
        assert difference.old is not None
        if not difference.old.is_folder:
            self._writer.remove(difference.path)
        elif self._writer.remove_folder(difference.path):
            return
        elif difference.new is None:
            self.kept.add(difference.path)
        else:
            self.failures[difference.path] = "it holds files that are in no checkpoint"

    def _write(self, path: bytes, old: Entry | None, new: Entry) -> None:
        if path in self.failures:
            return
        if old is not None and old.oid == new.oid and not old.is_link and not new.is_link:
            self._writer.set_mode(path, new.mode)
            return
        data = self._objects.read(new.oid)
        if new.is_link:
            self._writer.make_link(path, data)
        elif old is not None or not self._writer.holds(path, new.mode, data):
            self._writer.write_file(path, new.mode, data)

    @contextlib.contextmanager
    def _reporting(self, path: bytes) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failures[path] = error.strerror or str(error)
        except CheckpointError as error:
            self.failures[path] = error.message


def _makes_way(old: Entry, new: Entry | None) -> bool:
    return new is None or old.is_folder != new.is_folder


class _Writer:
    """Changes what is below one folder. Paths are relative to it. Raises OSError."""

    def __init__(self, top: Path) -> None:
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[bytes, int] | None = None
        self._unlocked: dict[bytes, int] = {}
        self._is_root = os.geteuid() == 0

    def close(self) -> None:
        self._forget()
        os.close(self._top)

    def write_file(self, path: bytes, mode: int, data: bytes) -> None:
        folder, name = self._place(path)
        self._discard(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(_TEMPORARY, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            self._own(folder, _TEMPORARY, name)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
        os.rename(_TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)

    def make_link(self, path: bytes, target: bytes) -> None:
        folder, name = self._place(path)
        self._discard(folder)
        os.symlink(target, _TEMPORARY, dir_fd=folder)
        self._own(folder, _TEMPORARY, name)
        os.rename(_TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)

    def make_folder(self, path: bytes) -> None:
        """What is there and is no folder makes way: no snapshot has it."""
        try:
            folder, name = self._place(path)
        except FileNotFoundError:
            self.make_folder(path.rpartition(b"/")[0])
            folder, name = self._place(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, _ENTER, dir_fd=folder)
            self._own(folder, name, b".")
            return
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            os.unlink(name, dir_fd=folder)
            self.make_folder(path)

    def link(self, source: Path, path: bytes) -> None:
        """A hard link to `source`, a copy where that can't be."""
        self.make_folder(path.rpartition(b"/")[0])
        folder, name = self._place(path)
        try:
            os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return
        except OSError:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(name, flags, 0o444, dir_fd=folder)
            with source.open("rb") as reader, open(target, "wb") as writer:
                shutil.copyfileobj(reader, writer)
            self._own(folder, name, b".")

    def rename(self, path: bytes, new: bytes) -> None:
        """Both are in the same folder, and `new` is free."""
        folder, name = self._place(path)
        target = new.rpartition(b"/")[2]
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, path: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            folder, name = self._place(path)
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: bytes) -> bool:
        """False if there is still something in it."""
        try:
            folder, name = self._place(path)
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in _NOT_EMPTY:
                return False
            raise
        finally:
            self._forget()
        self._unlocked.pop(path, None)
        return True

    def remove_tree(self, path: bytes) -> None:
        folder, name = self._place(path)
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def holds(self, path: bytes, mode: int, data: bytes) -> bool:
        """Whether a file of just this content and mode is there."""
        folder, name = self._place(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            facts = os.lstat(name, dir_fd=folder)
            same = stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o777 == stat.S_IMODE(mode)
            if not same or facts.st_size != len(data):
                return False
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                return file.read(len(data) + 1) == data
        except OSError:
            return False

    def set_mode(self, path: bytes, mode: int) -> None:
        """Of a file or folder, leaving setuid, setgid and sticky bits of folders as they are."""
        folder, name = self._place(path)
        facts = os.lstat(name, dir_fd=folder)
        wanted = stat.S_IMODE(mode)
        if stat.S_ISDIR(facts.st_mode):
            wanted |= facts.st_mode & 0o7000
        if stat.S_IMODE(facts.st_mode) != wanted:
            _chmod(folder, name, wanted)

    def set_modes(self, modes: dict[bytes, int], failures: dict[bytes, str]) -> None:
        """Of folders, and of those that were made writable for a while."""
        pending = {**self._unlocked, **modes}
        while pending:
            self._forget()
            self._unlocked = {}
            for path in sorted(pending, reverse=True):
                try:
                    self.set_mode(path, pending[path])
                except OSError as error:
                    failures.setdefault(path, error.strerror or str(error))
                self._unlocked.pop(path, None)
            # Those that had to be opened to get here.
            pending = self._unlocked

    def _place(self, path: bytes) -> tuple[int, bytes]:
        """The folder of `path`, open and writable, and its name there."""
        above, _, name = path.rpartition(b"/")
        if name in (b"", b".", b"..") or path.startswith(b"/"):
            raise OSError(0, "it is outside the workspace")
        if self._open is None or self._open[0] != above:
            self._forget()
            self._open = (above, self._open_folder(above))
        return self._open[1], name

    def _open_folder(self, path: bytes) -> int:
        folder = os.dup(self._top)
        opened = b""
        for name in path.split(b"/") if path else []:
            if name in (b"", b".", b".."):
                os.close(folder)
                raise OSError(0, "it is outside the workspace")
            opened = opened + b"/" + name if opened else name
            above = folder
            try:
                folder = self._enter(above, name, opened)
            finally:
                os.close(above)
        mode = os.fstat(folder).st_mode
        if not self._is_root and mode & _WRITE != _WRITE:
            os.fchmod(folder, stat.S_IMODE(mode) | _ENTER)
            self._unlocked.setdefault(path, stat.S_IMODE(mode))
        return folder

    def _enter(self, above: int, name: bytes, path: bytes) -> int:
        try:
            return os.open(name, _OPEN_FOLDER, dir_fd=above)
        except PermissionError:
            mode = stat.S_IMODE(os.lstat(name, dir_fd=above).st_mode)
            _chmod(above, name, mode | _ENTER)
            self._unlocked.setdefault(path, mode)
            return os.open(name, _OPEN_FOLDER, dir_fd=above)

    def _forget(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _discard(self, folder: int) -> None:
        """What a killed restore left."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_TEMPORARY, dir_fd=folder)

    def _own(self, folder: int, made: bytes, like: bytes) -> None:
        """root leaves files to those who had them, or who have the folder."""
        if not self._is_root:
            return
        try:
            facts = os.lstat(like, dir_fd=folder)
        except FileNotFoundError:
            facts = os.fstat(folder)
        with contextlib.suppress(PermissionError):
            os.chown(made, facts.st_uid, facts.st_gid, dir_fd=folder, follow_symlinks=False)


_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def _chmod(folder: int, name: bytes, mode: int) -> None:
    """Never that of a symlink's target."""
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
