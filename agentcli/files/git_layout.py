"""What git's daily work changes in a git folder: the one list for access scope, sandbox and watch.

All else tells git what to run or where to look, or is unknown: git adds to it with each version, so
what is harmless is listed and not what isn't. The names are those of gitrepository-layout(5) and of
what git 2.39 to 2.5x was seen to make.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

GIT = ".git"
INFO, WORKTREES, MODULES = "info", "worktrees", "modules"
LOCKED = "locked"
"""Why a worktree is not to be removed."""
MONITOR = "fsmonitor--daemon.ipc"
"""A socket."""
TRIAL = re.compile(r"t\w{6}", re.ASCII)
"""Made and removed by `git init`, to see whether there can be links."""
ASIDE = "agent-aside-"
"""Begins the name of what the watch has taken away and not yet put elsewhere."""

DATA_FOLDERS = frozenset(
    (
        *("objects", "refs", "logs", "reftable", "rr-cache", "lfs", "fsmonitor--daemon"),
        *("rebase-merge", "rebase-apply", "sequencer", "NOTES_MERGE_WORKTREE"),
    )
)
_FILES = re.compile(
    # HEAD and the like, messages, the state of a merge or a bisection; git's own are all capitals.
    r"HEAD|[A-Z]+(?:_[A-Z]+)+|ADD_EDIT\.patch|addp-hunk-edit\.diff"
    r"|index|index\.stash\.\d+|next-index-\d+|sharedindex[._]\w+"
    r"|packed-refs(?:\.new)?|shallow(?:_\w{6})?|gc\.(?:log|pid)|rebased-patches"
    rf"|fast_import_crash_\d+|{re.escape(MONITOR)}"
    rf"|{TRIAL.pattern}"
    # Written ahead of the file that it is to become, and never read before.
    r"|.+\.lock"
    rf"|{ASIDE}\w+",
    re.ASCII | re.DOTALL,
)
_INFO_FILES = re.compile(r"refs(?:_\w{6})?|sparse-checkout|.+\.lock", re.ASCII | re.DOTALL)


def is_daily_file(name: str) -> bool:
    """Of a file directly in a git folder: that of a repository, a submodule or a worktree."""
    return name not in DATA_FOLDERS and _FILES.fullmatch(name) is not None


def is_daily_info(name: str) -> bool:
    """Of a file in the folder `info`."""
    return _INFO_FILES.fullmatch(name) is not None


def is_daily(parts: Sequence[str]) -> bool:
    """Whether git's daily work makes, changes or removes the file at `parts` of a git folder."""
    first, *rest = parts
    if first in DATA_FOLDERS:
        return bool(rest)
    if first == INFO:
        return len(rest) == 1 and is_daily_info(rest[0])
    if first == WORKTREES:
        return len(rest) > 1 and (rest[1:] == [LOCKED] or is_daily(rest[1:]))
    if first == MODULES:
        # Names of submodules may hold slashes.
        return any(is_daily(rest[start:]) for start in range(1, len(rest)))
    return not rest and is_daily_file(first)


def is_control(parts: Sequence[str]) -> bool:
    """Whether the path of these `parts` is a `.git`, or what git's daily work does not change in
    one: of a repository that is there or yet to come. Any case of `.git` counts: disks differ in
    what they take for the same name."""
    for place, part in enumerate(parts):
        if part.casefold() == GIT:
            rest = parts[place + 1 :]
            return not rest or not is_daily(rest)
    return False
