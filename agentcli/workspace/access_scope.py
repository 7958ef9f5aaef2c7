"""What a session may read, change and bring back, as values shared by policy, sandbox and tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from agentcli.workspace.git_layout import is_control_file, is_routine_git_file


@dataclass(frozen=True)
class AccessScope:
    """What a session may access. All paths are absolute and resolved."""

    workspace: Path
    home: Path
    writable: tuple[Path, ...]
    """The root of the repository (else the working directory), the common git folder of a worktree,
    and what the user added."""
    protected: tuple[Path, ...] = ()
    """Read-only places within `writable`: `.git/hooks`, `.git/config`, an agent installed there."""
    git_folders: tuple[Path, ...] = ()
    """Git folders of repositories, where only what git's daily work changes may be written."""
    hidden: tuple[Path, ...] = ()
    """Not even readable: secret files and folders, sockets, the agent's own settings and
    sessions."""
    readable: tuple[Path, ...] = ()
    """Exceptions within `hidden`, such as the session's outputs."""
    confined_to: tuple[Path, ...] = ()
    """If there are any, only these and what is writable may be read."""
    masked: tuple[Path, ...] = ()
    """The folders below the root that hold everything else; empty unless `confined_to` is set."""
    agent_files: tuple[Path, ...] = ()
    """The agent's settings and state, which nothing it runs may write in any mode."""
    mounts: Mapping[Path, Path] = field(default_factory=dict)
    """Where folders in the view of commands (`/tmp`) really are."""
    sealed: bool = False
    """Only the mounts may be written (plan mode); what is writable otherwise can be read."""
    problems: tuple[str, ...] = ()
    """What can't be protected, in words for the user."""
    user_named: list[Path] = field(default_factory=list)
    """Paths in the real /tmp that the user named, to be read in place. The list grows during the
    session, and copies of the scope share it."""

    def may_read(self, path: Path) -> bool:
        """Return whether a resolved path may be read."""
        if _within(path, self._always_readable):
            return True
        if _within(path, self._hidden):
            return False
        return not self.confined_to or _within(path, self._unconfined) or self.is_user_named(path)

    def is_user_named(self, path: Path) -> bool:
        """Return whether the user named this path or a folder around it."""
        return bool(self.user_named) and _within(path, _names(self.user_named))

    def is_given(self, path: Path) -> bool:
        """Return whether a resolved path is in the workspace, in what the user added or named, or
        in a place of the session's own."""
        return _within(path, self._given) or self.is_user_named(path)

    def is_elsewhere(self, path: Path) -> bool:
        """Return whether a resolved path is unreadable only because it isn't in `confined_to`."""
        return bool(self.confined_to) and not _within(path, self._hidden)

    def may_write(self, path: Path) -> bool:
        """Return whether a resolved path may be written."""
        if _within(path, self._opened):
            return True
        if self.sealed or not self.may_read(path) or _within(path, self._agent_files):
            return False
        if self.is_protected(path):
            return False
        around = _nearest(path, self._writable)
        return around is not None and (around != "/" or not _within(path, OF_THE_KERNEL))

    def is_protected(self, path: Path) -> bool:
        """Return whether a resolved path, existing or not, is read-only within a writable place:
        mostly what git would run or trust."""
        if _within(path, self._protected):
            return True
        folder = _nearest(path.parent, self._git_folders)
        if folder is not None:
            return not is_routine_git_file(path.relative_to(folder).parts)
        return is_control_file(path.parts)

    def real_path(self, path: Path) -> Path:
        """Return where an absolute path in the view of commands really is. What the sandbox shows
        in place at or below a mount, such as a workspace in /tmp, keeps its path."""
        if ".." in path.parts or self.is_user_named(path):
            return path
        around = _nearest(path, _names((*self.writable, *self.readable, self.workspace)))
        over = (seen for seen in self.mounts if path.is_relative_to(seen))
        seen = max(over, key=lambda seen: len(seen.parts), default=None)
        if seen is None or (around and Path(around).is_relative_to(seen)):
            return path
        return self.mounts[seen] / path.relative_to(seen)

    def seen_path(self, path: Path) -> Path:
        """Return the path under which commands see a real path."""
        for seen, real in self.mounts.items():
            if path.is_relative_to(real):
                return seen / path.relative_to(real)
        return path

    @cached_property
    def _always_readable(self) -> frozenset[str]:
        return _names((*self.readable, *self.mounts.values()))

    @cached_property
    def _given(self) -> frozenset[str]:
        own = (*self.readable, *self.mounts.values())
        return _names((self.workspace, *self.writable, *own))

    @cached_property
    def _hidden(self) -> frozenset[str]:
        return _names(self.hidden)

    @cached_property
    def _unconfined(self) -> frozenset[str]:
        return _names((*self.confined_to, *self.writable))

    @cached_property
    def _writable(self) -> frozenset[str]:
        return _names(self.writable)

    @cached_property
    def _agent_files(self) -> frozenset[str]:
        return _names(self.agent_files)

    @cached_property
    def _protected(self) -> frozenset[str]:
        return _names(self.protected)

    @cached_property
    def _git_folders(self) -> frozenset[str]:
        return _names(self.git_folders)

    @cached_property
    def _opened(self) -> frozenset[str]:
        """Folders that may be written whatever lies around them: the mounts and, unless `sealed`,
        what is `writable` among the agent's own."""
        if self.sealed:
            return _names(self.mounts.values())
        opened = (folder for folder in self.writable if _within(folder, self._agent_files))
        return _names((*self.mounts.values(), *opened))


TMP = Path("/tmp")

OF_THE_KERNEL = frozenset(("/dev", "/proc", "/run", "/sys"))
"""Never writable, even if the root is: writing there configures the machine instead of storing
files."""

LARGEST_COVERED = 50_000_000
"""Largest file that checkpoints hold, in bytes. Sources are smaller, and filling the disk with
versions of a data file helps nobody."""


@dataclass(frozen=True)
class Coverage:
    """What checkpoints hold: everything below `root`, except files over `largest_file` bytes and
    what was `left_out`, with everything below it, when the agent was started. `failure` says why
    there are no checkpoints."""

    root: Path
    left_out: frozenset[Path] = frozenset()
    largest_file: int = 0
    failure: str = ""


def _names(folders: Iterable[Path]) -> frozenset[str]:
    return frozenset(map(str, folders))


def _within(path: Path, folders: frozenset[str]) -> bool:
    """Return whether `path` is or lies in one of `folders`; called for every file of a search."""
    return _nearest(path, folders) is not None


def _nearest(path: Path, folders: frozenset[str]) -> str | None:
    """Return the innermost of `folders` that `path` is or lies in."""
    here = str(path)
    while here and here != "/":
        if here in folders:
            return here
        here = here.rpartition("/")[0]
    return "/" if "/" in folders else None
