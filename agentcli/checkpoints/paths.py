"""What a path of a snapshot means to git. Pure functions.

A git folder is `.git` at any depth, `.` for the one outside the workspace, or one inside another:
that of a submodule (`.git/modules/NAME`) or a worktree (`.git/worktrees/NAME`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from agentcli.checkpoints.places import COMMON, is_common
from agentcli.checkpoints.scan import REPOSITORY
from agentcli.checkpoints.trees import with_parents

_OBJECT = re.compile(rb"(?:^|/)objects(?:/(?:[0-9a-f]{2}|pack|info)(?:/|$)|$)")
LOOSE = re.compile(rb"(?:^|/)([0-9a-f]{2})/([0-9a-f]{38}|[0-9a-f]{62})$")
"""The file of one object, named by the digest of its content."""
_PACK = re.compile(rb"(?:^|/)objects/pack/[^/]+$")
_PACK_ENDS = (b".pack", b".idx")
_TRACES = frozenset(
    (
        *(b"FETCH_HEAD", b"ORIG_HEAD", b"COMMIT_EDITMSG", b"AUTO_MERGE", b"SQUASH_MSG"),
        *(b"gc.log", b"gc.pid", b"gitk.cache"),
    )
)
_STASH = b"logs/refs/stash"


class Role(Enum):
    """What a file in a git folder is for. LOCK: marks a running command, and would block the next
    if it were restored. TRACE: what git notes on the side. REFLOG: the same, but people use it to
    go back. STATE: everything else, including settings."""

    REF = auto()
    PACKED_REFS = auto()
    INDEX = auto()
    OBJECT = auto()
    LOCK = auto()
    TRACE = auto()
    REFLOG = auto()
    STATE = auto()


class GitPath(NamedTuple):
    """`folder` is the git folder that contains `name`; `name` is empty for the folder itself."""

    folder: bytes
    name: bytes

    @property
    def role(self) -> Role:
        name = self.name
        if name.endswith(b".lock"):
            return Role.LOCK
        if name == b"packed-refs":
            return Role.PACKED_REFS
        if name.startswith(b"refs/"):
            return Role.REF
        if name == b"index":
            return Role.INDEX
        if is_object(name):
            return Role.OBJECT
        if name.startswith(b"logs/") and name != _STASH:
            return Role.REFLOG
        return Role.TRACE if name in _TRACES or name.startswith(b"sharedindex.") else Role.STATE


def repository_of(path: bytes) -> bytes | None:
    """Return the outermost git folder that `path` is or lies in."""
    if is_common(path):
        return COMMON
    if REPOSITORY not in path:
        return None
    return next((p for p in with_parents(path) if p.rpartition(b"/")[2] == REPOSITORY), None)


def git_path(
    path: bytes, is_git_folder: Callable[[bytes], bool] = lambda _: False
) -> GitPath | None:
    """Return the place of `path` in its git folder; None outside of any. `is_git_folder` tells a
    submodule's folder from one that is only the beginning of the submodule's name, which may hold
    slashes; without it, the files of submodules count as those of the repository around them."""
    folder = repository_of(path)
    if folder is None:
        return None
    name = path[len(folder) + 1 :]
    while True:
        inner = _submodule(folder, name, is_git_folder) or _worktree(name)
        if inner is None:
            return GitPath(folder, name)
        folder, name = folder + b"/" + inner, name[len(inner) + 1 :]


def role_of(path: bytes) -> Role | None:
    """Return what the file at `path` is for if it is in a git folder."""
    place = git_path(path)
    return None if place is None else place.role


def _submodule(folder: bytes, name: bytes, is_git_folder: Callable[[bytes], bool]) -> bytes | None:
    if not name.startswith(b"modules/"):
        return None
    places = (p for p in with_parents(name) if p != b"modules")
    return next((p for p in places if is_git_folder(folder + b"/" + p)), None)


def _worktree(name: bytes) -> bytes | None:
    parts = name.split(b"/", 2)
    return b"/".join(parts[:2]) if parts[0] == b"worktrees" and len(parts) > 1 else None


def is_object(path: bytes) -> bool:
    return _OBJECT.search(path) is not None


def is_pack(path: bytes) -> bool:
    return path.endswith(_PACK_ENDS) and _PACK.search(path) is not None
