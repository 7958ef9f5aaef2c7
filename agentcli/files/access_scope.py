"""What a session may see, change and bring back: values that policy, sandbox and tools share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from agentcli.files.git_layout import is_control, is_daily


@dataclass(frozen=True)
class AccessScope:
    """All paths are absolute and resolved. `writable`: the repository's root (else the working
    directory), a worktree's common git folder, and what the user added. `protected`: within those,
    but read-only: `.git/hooks`, `.git/config`, an agent that is installed there. `git_folders`:
    those of repositories, of which only what git's daily work changes may be written. `hidden`: not
    even to be read: secret files and folders, sockets, the agent's own settings and sessions;
    `readable` are exceptions within it, such as the session's outputs. `shown`: where there are
    any, nothing else may be read but these and what is writable; `covered` are then the folders
    below the root that hold the rest. `own`: the agent's settings and state, which nothing it runs
    may write in any mode. `mounts`: where a folder of the commands' view really is (`/tmp`).
    `sealed`: nothing but the mounts is to be written (plan mode); what is writable otherwise is
    shown. `problems`: what can't be protected, in words for the person. `named`: what of the real
    /tmp the person named, to be read where it is; it grows while the session goes on, and copies
    of the scope share it."""

    workspace: Path
    home: Path
    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    git_folders: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    covered: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    mounts: Mapping[Path, Path] = field(default_factory=dict)
    sealed: bool = False
    problems: tuple[str, ...] = ()
    named: list[Path] = field(default_factory=list)

    def may_read(self, path: Path) -> bool:
        """Of a resolved path."""
        if _within(path, self._always_readable):
            return True
        if _within(path, self._hidden):
            return False
        return not self.shown or _within(path, self._shown) or self.is_named(path)

    def is_named(self, path: Path) -> bool:
        """Whether the person named it, or a folder around it."""
        return bool(self.named) and _within(path, _names(self.named))

    def is_elsewhere(self, path: Path) -> bool:
        """Whether a resolved path is only hidden for not being among what is shown."""
        return bool(self.shown) and not _within(path, self._hidden)

    def may_write(self, path: Path) -> bool:
        """Of a resolved path."""
        if _within(path, self._opened):
            return True
        if self.sealed or not self.may_read(path) or _within(path, self._own):
            return False
        if self.is_protected(path):
            return False
        around = _nearest(path, self._writable)
        return around is not None and (around != "/" or not _within(path, OF_THE_KERNEL))

    def is_protected(self, path: Path) -> bool:
        """Whether a resolved path, there or not, is read-only though what lies around it is not:
        what git would run or believe, mostly."""
        if _within(path, self._protected):
            return True
        folder = _nearest(path.parent, self._git_folders)
        if folder is not None:
            return not is_daily(path.relative_to(folder).parts)
        return is_control(path.parts)

    def real_path(self, path: Path) -> Path:
        """Where an absolute path of the commands' view is. What is shown at or below a mount at its
        own place, such as a workspace in /tmp, is there."""
        if ".." in path.parts or self.is_named(path):
            return path
        around = _nearest(path, _names((*self.writable, *self.readable, self.workspace)))
        over = (seen for seen in self.mounts if path.is_relative_to(seen))
        seen = max(over, key=lambda seen: len(seen.parts), default=None)
        if seen is None or (around and Path(around).is_relative_to(seen)):
            return path
        return self.mounts[seen] / path.relative_to(seen)

    def seen_path(self, path: Path) -> Path:
        """The other way round."""
        for seen, real in self.mounts.items():
            if path.is_relative_to(real):
                return seen / path.relative_to(real)
        return path

    @cached_property
    def _always_readable(self) -> frozenset[str]:
        return _names((*self.readable, *self.mounts.values()))

    @cached_property
    def _hidden(self) -> frozenset[str]:
        return _names(self.hidden)

    @cached_property
    def _shown(self) -> frozenset[str]:
        return _names((*self.shown, *self.writable))

    @cached_property
    def _writable(self) -> frozenset[str]:
        return _names(self.writable)

    @cached_property
    def _own(self) -> frozenset[str]:
        return _names(self.own)

    @cached_property
    def _protected(self) -> frozenset[str]:
        return _names(self.protected)

    @cached_property
    def _git_folders(self) -> frozenset[str]:
        return _names(self.git_folders)

    @cached_property
    def _opened(self) -> frozenset[str]:
        """Folders of the agent's own that are there for commands."""
        if self.sealed:
            return _names(self.mounts.values())
        opened = (folder for folder in self.writable if _within(folder, self._own))
        return _names((*self.mounts.values(), *opened))


TMP = Path("/tmp")

OF_THE_KERNEL = frozenset(("/dev", "/proc", "/run", "/sys"))
"""Of a writable root these are no part: what is written there sets the machine, no files."""

LARGEST_COVERED = 50_000_000
"""Bytes of a file that checkpoints hold. Sources are smaller; a disk full of versions of one data
file helps nobody."""


@dataclass(frozen=True)
class Coverage:
    """What checkpoints hold: all that is below `root` but for what was `left_out` when the agent
    was started, with all below that, and files over `largest_file` bytes. `failure`: why there are
    none."""

    root: Path
    left_out: frozenset[Path] = frozenset()
    largest_file: int = 0
    failure: str = ""


def _names(folders: Iterable[Path]) -> frozenset[str]:
    return frozenset(map(str, folders))


def _within(path: Path, folders: frozenset[str]) -> bool:
    """Whether it is one of them, or in one: asked of every file of a search."""
    return _nearest(path, folders) is not None


def _nearest(path: Path, folders: frozenset[str]) -> str | None:
    """The innermost of these that it is, or is in."""
    here = str(path)
    while here and here != "/":
        if here in folders:
            return here
        here = here.rpartition("/")[0]
    return "/" if "/" in folders else None
