"""What a session may read, change and bring back, as values shared by policy, sandbox and tools.

Of git's folders it may change what git's daily work changes; everything else there tells git what
to run or where to look, or is unknown. New versions of git add files, so we list what is harmless,
not what is dangerous. The names come from gitrepository-layout(5) and from observing git 2.39 to
2.5x.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

GIT = ".git"
INFO, WORKTREES, MODULES = "info", "worktrees", "modules"
LOCKED = "locked"
"""A file that says why a worktree must not be removed."""
MONITOR = "fsmonitor--daemon.ipc"
"""The socket of git's file system monitor."""
TRIAL = re.compile(r"t\w{6}", re.ASCII)
"""Temporary names used by `git init` to find out whether symlinks are supported."""
_POINTER = b"gitdir: "
ASIDE = "agent-aside-"
"""Prefix for files that the watch has removed and not yet put elsewhere."""

DATA_FOLDERS = frozenset(
    (
        *("objects", "refs", "logs", "reftable", "rr-cache", "lfs", "fsmonitor--daemon"),
        *("rebase-merge", "rebase-apply", "sequencer", "NOTES_MERGE_WORKTREE"),
    )
)
_FILES = re.compile(
    # HEAD and the like, messages, the state of a merge or a bisection: git names them in capitals.
    r"HEAD|[A-Z]+(?:_[A-Z]+)+|ADD_EDIT\.patch|addp-hunk-edit\.diff"
    r"|index|index\.stash\.\d+|next-index-\d+|sharedindex[._]\w+"
    r"|packed-refs(?:\.new)?|shallow(?:_\w{6})?|gc\.(?:log|pid)|rebased-patches"
    rf"|fast_import_crash_\d+|{re.escape(MONITOR)}"
    rf"|{TRIAL.pattern}"
    # Written before it is renamed to the file it becomes, and never read until then.
    r"|.+\.lock"
    rf"|{ASIDE}\w+",
    re.ASCII | re.DOTALL,
)
_INFO_FILES = re.compile(r"refs(?:_\w{6})?|sparse-checkout|.+\.lock", re.ASCII | re.DOTALL)


def is_routine_name(name: str) -> bool:
    """Return whether git's daily work changes a file of this name directly in a git folder: that of
    a repository, a submodule or a worktree."""
    return name not in DATA_FOLDERS and _FILES.fullmatch(name) is not None


def is_routine_info_name(name: str) -> bool:
    """Return whether git's daily work changes a file of this name in the folder `info`."""
    return _INFO_FILES.fullmatch(name) is not None


def is_routine_git_file(parts: Sequence[str]) -> bool:
    """Return whether git's daily work creates, changes or removes the file at `parts` of a git
    folder."""
    first, *rest = parts
    if first in DATA_FOLDERS:
        return bool(rest)
    if first == INFO:
        return len(rest) == 1 and is_routine_info_name(rest[0])
    if first == WORKTREES:
        return len(rest) > 1 and (rest[1:] == [LOCKED] or is_routine_git_file(rest[1:]))
    if first == MODULES:
        # Names of submodules may contain slashes.
        return any(is_routine_git_file(rest[start:]) for start in range(1, len(rest)))
    return not rest and is_routine_name(first)


def is_control_file(parts: Sequence[str]) -> bool:
    """Return whether the path is a `.git`, or inside one and not changed by git's daily work; the
    repository need not exist yet. `.git` matches in any case, as some file systems ignore it."""
    for place, part in enumerate(parts):
        if part.casefold() == GIT:
            rest = parts[place + 1 :]
            return not rest or not is_routine_git_file(rest)
    return False


def named_place(text: bytes) -> str:
    """Return the place that a file such as `commondir` names, exactly as git reads it: a NUL and
    line ends at the end don't belong to it, but blanks do."""
    return os.fsdecode(text.rstrip(b"\r\n").partition(b"\0")[0])


def pointed_place(text: bytes) -> str | None:
    """Return the place that a `.git` file names; None if git would not take it for one."""
    return named_place(text.removeprefix(_POINTER)) if text.startswith(_POINTER) else None


def real_place(base: Path, place: str) -> Path:
    """Return where `place` really is, relative to `base`. A loop of symlinks is left as it is."""
    return Path(os.path.realpath(base / place))


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
        if _within(path, self._places["always_readable"]):
            return True
        if _within(path, self._places["hidden"]):
            return False
        return (
            not self.confined_to
            or _within(path, self._places["unconfined"])
            or self.is_user_named(path)
        )

    def is_user_named(self, path: Path) -> bool:
        """Return whether the user named this path or a folder around it."""
        return bool(self.user_named) and _within(path, _names(self.user_named))

    def is_given(self, path: Path) -> bool:
        """Return whether a resolved path is in the workspace, in what the user added or named, or
        in a place of the session's own."""
        return _within(path, self._places["given"]) or self.is_user_named(path)

    def is_elsewhere(self, path: Path) -> bool:
        """Return whether a resolved path is unreadable only because it isn't in `confined_to`."""
        return bool(self.confined_to) and not _within(path, self._places["hidden"])

    def may_write(self, path: Path) -> bool:
        """Return whether a resolved path may be written."""
        if _within(path, self._places["opened"]):
            return True
        if self.sealed or not self.may_read(path) or _within(path, self._places["agent_files"]):
            return False
        if self.is_protected(path):
            return False
        around = _nearest(path, self._places["writable"])
        return around is not None and (around != "/" or not _within(path, OF_THE_KERNEL))

    def is_protected(self, path: Path) -> bool:
        """Return whether a resolved path, existing or not, is read-only within a writable place:
        mostly what git would run or trust."""
        if _within(path, self._places["protected"]):
            return True
        folder = _nearest(path.parent, self._places["git_folders"])
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
    def _places(self) -> dict[str, frozenset[str]]:
        """Sets of folders by what they are for. `opened` may be written whatever lies around them:
        the mounts and, unless `sealed`, what is `writable` among the agent's own."""
        agents = _names(self.agent_files)
        own = (*self.readable, *self.mounts.values())
        writable = () if self.sealed else self.writable
        opened = (folder for folder in writable if _within(folder, agents))
        return {
            "always_readable": _names(own),
            "given": _names((self.workspace, *self.writable, *own)),
            "hidden": _names(self.hidden),
            "unconfined": _names((*self.confined_to, *self.writable)),
            "writable": _names(self.writable),
            "agent_files": agents,
            "protected": _names(self.protected),
            "git_folders": _names(self.git_folders),
            "opened": _names((*self.mounts.values(), *opened)),
        }


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
