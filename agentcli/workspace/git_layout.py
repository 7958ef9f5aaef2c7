"""What git's daily work changes in a git folder: one list for access scope, sandbox and watch.

Everything else tells git what to run or where to look, or is unknown. New versions of git add
files, so we list what is harmless, not what is dangerous. The names come from
gitrepository-layout(5) and from observing git 2.39 to 2.5x.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
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
