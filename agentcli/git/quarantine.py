"""Moves files out of folders that others can write to, restores files there, whatever those others
do meanwhile, and keeps account of it.

Everything is done relative to open descriptors of the folders. No symlink is followed, and only
regular files are opened."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentcli.workspace.private import copy_owner_and_mode, read_regular, replacing, write_private
from agentcli.workspace.scope import ASIDE

LARGEST_KNOWN = 262_144
"""Largest file whose content is kept so that it can be restored, in bytes."""
_MOST_KEPT = 200

SETTLED_NS = 50_000_000
"""File system clocks tick every 1 to 10 ms. If a file changed less than this before we looked, it
can change again without a trace in its times."""


@dataclass(frozen=True)
class Finding:
    """`path` was changed or made; `done` says what was done about it, `kept` where it is now."""

    path: Path
    done: str
    why: str
    kept: Path | None = None


def why(place: str) -> str:
    name = place.rpartition("/")[2]
    if place.startswith("hooks") or "/hooks/" in f"/{place}":
        return "git would run it"
    if name in ("commondir", "gitdir", ".git"):
        return "git would take settings and hooks from elsewhere"
    if name in ("config", "config.worktree"):
        return "git would run what it names"
    if name in ("index", "MERGE_RR"):
        return "git would write or look outside of the working tree, or into a git folder"
    if name == "git-rebase-todo":
        return "commands added them"
    return "git itself makes no such file, but may trust it"


Identity = tuple[int, int]
"""Device and inode."""


class FileRecord(NamedTuple):
    """What stood at a place. `data` is the content of a file or the target of a symlink; None for
    anything else and for a file too large to be kept. `stamp` is size and times."""

    mode: int
    id: Identity
    stamp: tuple[int, int, int]
    owner: tuple[int, int]
    data: bytes | None = None
    seen_ns: int = 0

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.mode)

    def is_still(self, info: os.stat_result) -> bool:
        """Return whether `info` certainly describes this unchanged file, without reading it."""
        is_same = self.stamp == stamp(info) and self.mode == info.st_mode
        is_settled = self.stamp[2] < self.seen_ns - SETTLED_NS or not stat.S_ISREG(self.mode)
        return is_same and is_settled and self.id == identity(info)


def record_file(folder: int, name: str, info: os.stat_result) -> FileRecord:
    """Record what stands at `name`, whose status is `info`. Raises OSError if it is gone."""
    data = None
    seen_ns = time.time_ns()
    if stat.S_ISREG(info.st_mode):
        data = content(folder, name)
    elif stat.S_ISLNK(info.st_mode):
        data = os.fsencode(os.readlink(name, dir_fd=folder))
    return FileRecord(
        info.st_mode, identity(info), stamp(info), (info.st_uid, info.st_gid), data, seen_ns
    )


def identity(info: os.stat_result) -> Identity:
    return info.st_dev, info.st_ino


def stamp(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns


def content(folder: int, name: str) -> bytes | None:
    """Return the content of a regular file, None for a large one and one that its owner may not
    read. Raises OSError for anything else."""
    try:
        data, _ = read_regular(name, LARGEST_KNOWN + 1, folder=folder)
    except PermissionError:
        return None
    return data if len(data) <= LARGEST_KNOWN else None


class Quarantine:
    """A folder for what was taken away. `place` is created on first use; nothing else writes
    there."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._count = 0
        self._had: dict[tuple[str, bytes], Path] = {}

    def take(self, folder: int, name: str) -> Path | None:
        """Move what is at `name` away and return where it is kept.

        That is in the quarantine, or beside its old place under a meaningless name if there is too
        much or it is on another file system. Returns None if it has no content (a pipe). Raises
        OSError if it can't be moved or is already gone.
        """
        _open_up(folder)
        aside = f"{ASIDE}{os.urandom(8).hex()}"
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        info = os.stat(aside, dir_fd=folder, follow_symlinks=False)
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            kept = None
            if stat.S_ISLNK(info.st_mode):
                target = os.fsencode(os.readlink(aside, dir_fd=folder))
                kept = self.keep(name, b"a link to " + target)
            os.unlink(aside, dir_fd=folder)
            return kept
        if self._count < _MOST_KEPT:
            path = self._free(name)
            with contextlib.suppress(OSError):
                # Moving the file itself also keeps what someone is still writing to it.
                os.rename(aside, path, src_dir_fd=folder)
                return path
            if stat.S_ISREG(info.st_mode) and (data := content(folder, aside)) is not None:
                kept = self.keep(name, data)
                os.unlink(aside, dir_fd=folder)
                return kept
        return _path_in(folder, aside)

    def keep(self, name: str, data: bytes) -> Path:
        """Keep a copy of a file and return its path."""
        if (found := self._had.get((name, data))) is not None:
            return found
        path = self._had[name, data] = self._free(name)
        return write_private(path, data)

    def put(self, folder: int, name: str, was: FileRecord) -> None:
        """Restore `name` to what it `was`, replacing anything there except a folder. Raises
        OSError."""
        _open_up(folder)
        if stat.S_ISDIR(was.mode):
            os.mkdir(name, stat.S_IMODE(was.mode), dir_fd=folder)
            return
        if was.data is None:
            raise OSError(f"{name} was too large to be kept")
        temporary = f"{ASIDE}{os.urandom(8).hex()}"
        if stat.S_ISLNK(was.mode):
            os.symlink(was.data, temporary, dir_fd=folder)
            try:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(temporary, dir_fd=folder)
                raise
            return
        with replacing(name, temporary, folder=folder) as file:
            copy_owner_and_mode(file.fileno(), was.owner, was.mode)
            file.write(was.data)

    def replace(self, folder: int, name: str, old: bytes, new: bytes) -> Path:
        """Replace the content `old` of the file at `name` by `new`; return where `old` is kept.
        Raises OSError."""
        kept = self.keep(name, old)
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IFREG | stat.S_IMODE(info.st_mode)
        self.put(folder, name, FileRecord(mode, (0, 0), (0, 0, 0), (info.st_uid, info.st_gid), new))
        return kept

    def _free(self, name: str) -> Path:
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        shown = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:80]
        while True:
            self._count += 1
            path = self.place / f"{self._count}-{shown}"
            if not os.path.lexists(path):
                return path


def _open_up(folder: int) -> None:
    """Let the owner of a folder change it, which commands may have forbidden."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if not mode & stat.S_IWUSR:
        with contextlib.suppress(OSError):
            os.fchmod(folder, mode | stat.S_IRWXU)


def _path_in(folder: int, name: str) -> Path:
    try:
        return Path(os.readlink(f"/proc/self/fd/{folder}"), name)  # noqa: PTH115
    except OSError:
        return Path(name)


@dataclass
class Removals:
    """What was taken away goes to the `quarantine`; `findings` say what it was."""

    quarantine: Quarantine
    findings: list[Finding] = field(default_factory=list)

    def take(self, path: Path, folder: int, name: str) -> None:
        """Take away what is at `name` in the `folder` at `path`."""
        done, kept = "set aside", None
        try:
            kept = self.quarantine.take(folder, name)
        except FileNotFoundError:
            return
        except OSError as error:
            done = f"could not be set aside: {error.strerror or error}"
        self._add(path, name, done, kept)

    def replace(
        self, path: Path, folder: int, name: str, old: bytes, new: bytes, done: str
    ) -> None:
        """Replace the content `old` of a file; `done` says for people how they differ."""
        kept = None
        try:
            kept = self.quarantine.replace(folder, name, old, new)
        except FileNotFoundError:
            return
        except OSError as error:
            done = f"could not be rewritten: {error.strerror or error}"
        self._add(path, name, done, kept)

    def _add(self, path: Path, name: str, done: str, kept: Path | None) -> None:
        self.findings.append(Finding(path / name, done, why(f"{path.name}/{name}"), kept))
