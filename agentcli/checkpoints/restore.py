"""Brings a folder to the state of a snapshot, without ever writing outside of it.

Folders are opened one below the other and never through a symlink. A file gets its name only when
it is complete and has its mode.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from agentcli.checkpoints.object_store import ObjectStore
from agentcli.checkpoints.pack_store import PackStore, copy_bytes, share
from agentcli.checkpoints.store_git import CheckpointError
from agentcli.checkpoints.trees import Difference, Entry
from agentcli.files.private import link_open_file, read_regular, replacing
from agentcli.files.rooted_folder import RootedFolder

_TEMPORARY = b".agent-restore"
_MOST_NAMES = 100
_ENTER = 0o700
_WRITE = 0o300


class Restorer:
    """Applies differences below `top`, which must exist. `failures` says by path what went wrong;
    `kept` has the folders that stay because they hold something else; everything else is done.

    With `links`, a file that the store holds as a hard link is linked back; otherwise it is copied,
    so that `top` shares no file with another folder.
    """

    def __init__(self, top: Path, objects: ObjectStore, packs: PackStore, *, links: bool) -> None:
        self._writer = _Writer(top)
        self._objects = objects
        self._packs = packs
        self._links = links
        self.failures: dict[bytes, str] = {}
        self.kept: set[bytes] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def apply(
        self,
        differences: Sequence[Difference],
        order: Callable[[Difference], int] = lambda difference: 0,
    ) -> None:
        """Apply `differences`, which are sorted so that folders come before their contents. Files
        are written by `order`; ties keep the given order."""
        for difference in reversed(differences):
            if difference.old is not None and _makes_way(difference.old, difference.new):
                with self._reporting(difference.path):
                    self._remove(difference)
        modes = {d.path: d.new.mode for d in differences if d.new is not None and d.new.is_folder}
        for path in modes:
            with self._reporting(path):
                self._writer.make_folder(path)
        for difference in sorted(differences, key=order):
            if difference.new is not None and not difference.new.is_folder:
                with self._reporting(difference.path):
                    self._write(difference.path, difference.old, difference.new)
        self._writer.set_modes(modes, self.failures)

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
        if new.is_kept:
            self._bring(path, new)
            return
        data = self._objects.read(new.oid)
        if new.is_link:
            self._writer.make_link(path, data)
        elif old is not None or not self._writer.holds(path, new.mode, data):
            self._writer.write_file(path, new.mode, lambda file: file.write(data))

    def _bring(self, path: bytes, entry: Entry) -> None:
        with self._packs.opened(entry.oid, path) as source:
            if self._links and self._packs.is_link(entry.oid):
                with contextlib.suppress(OSError):
                    self._writer.link(path, source)
                    return
            self._writer.write_file(path, entry.mode, lambda file: _copy(source, file))

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


class _Writer(RootedFolder):
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

    def make_folder(self, path: bytes) -> None:
        """Create a folder, replacing anything else at that path: the current snapshot has it."""
        try:
            folder, name = self.place(path)
        except FileNotFoundError:
            self.make_folder(path.rpartition(b"/")[0])
            folder, name = self.place(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, _ENTER, dir_fd=folder)
            self._give_owner(folder, name, b".")
            return
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            os.unlink(name, dir_fd=folder)
            self.make_folder(path)

    def remove(self, path: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            folder, name = self.place(path)
            os.unlink(name, dir_fd=folder)

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
            _chmod(folder, name, wanted)

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
            _chmod(above, name, mode | _ENTER)
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


def _copy(source: BinaryIO, file: BinaryIO) -> None:
    if not share(source, file):
        copy_bytes(source, file)


_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def _chmod(folder: int, name: bytes, mode: int) -> None:
    """Change a mode, but never that of a symlink's target."""
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
