"""What a path of a snapshot means to git. Pure functions.

A git folder is `.git` at any depth, `.` for the one outside the workspace, or one inside another:
that of a submodule (`.git/modules/NAME`) or a worktree (`.git/worktrees/NAME`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from agentcli.checkpoints.scan import REPOSITORY
from agentcli.checkpoints.trees import with_parents
from agentcli.git.repositories import find_repository
from agentcli.workspace.opening import name_on_disk
from agentcli.workspace.private import dump_json

COMMON = b"."
"""The path of a git folder outside of `root`; its files are `./HEAD` and so on."""
_FILE = "place"


@dataclass(frozen=True)
class WorkspaceFolders:
    """`root` is the workspace or a folder above it, `common` the git folder of its repository if
    that lies outside of `root`. All are real paths."""

    workspace: Path
    root: Path
    common: Path | None = None

    def top(self, path: bytes) -> tuple[Path, bytes]:
        """Return the top folder that contains `path`, and the path in it; empty for the top
        itself."""
        if self.common is not None and is_common(path):
            return self.common, path[2:]
        return self.root, path

    def absolute(self, path: bytes) -> bytes:
        top, inner = self.top(path)
        return os.fsencode(top) + b"/" + inner

    def shown(self, path: bytes) -> str:
        """Return a path for people and models: relative to the workspace if it lies in `root`."""
        whole = os.fsdecode(self.absolute(path))
        if self.top(path)[0] != self.root:
            return whole.rstrip("/")
        return os.path.relpath(whole, self.workspace)

    def within(self, path: Path) -> bytes | None:
        """Convert a path that is absolute or relative to the workspace, resolving symlinks in its
        parents; None outside of `root`."""
        whole = self.workspace / path
        return inside(self.root, Path(os.path.realpath(whole.parent)) / whole.name)

    def alone(self) -> WorkspaceFolders:
        """Return the workspace without the rest of its repository, except for the git folder."""
        repository = find_repository(self.workspace)
        return _place(self.workspace, self.workspace, repository.folders if repository else ())


def find_place(workspace: Path) -> WorkspaceFolders:
    # A folder that does not exist here, or no longer, belongs to no repository.
    repository = find_repository(workspace) if workspace.is_dir() else None
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 (Path's own may fail)
    if repository is None or home.is_relative_to(repository.root):
        return WorkspaceFolders(workspace, workspace)
    return _place(workspace, repository.root, repository.folders)


def _place(workspace: Path, root: Path, git_folders: Iterable[Path]) -> WorkspaceFolders:
    outside = (folder for folder in map(Path.resolve, git_folders) if inside(root, folder) is None)
    return WorkspaceFolders(workspace, root, next(outside, None))


def load_place(store: Path, workspace: Path) -> WorkspaceFolders | None:
    """Load the folders that were found at the first snapshot of this workspace; None if there was
    none. They stay the same from then on, as the repository they were found by may be destroyed."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        facts = json.loads((store / _FILE).read_bytes())
        if facts["workspace"] == str(workspace):
            common = facts["common"]
            return WorkspaceFolders(
                workspace, Path(facts["root"]), Path(common) if common else None
            )
    return None


def save_place(store: Path, place: WorkspaceFolders) -> None:
    common = str(place.common) if place.common else None
    facts = {"workspace": str(place.workspace), "root": str(place.root), "common": common}
    dump_json(store / _FILE, facts)


def is_common(path: bytes) -> bool:
    return path == COMMON or path.startswith(b"./")


def redirected_outputs() -> Iterator[Path]:
    """Yield the files to which stdout and stderr of this process are redirected. They change while
    the agent works, but not through its work."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(number).st_mode):
                yield name_on_disk(number) or Path(f"/proc/self/fd/{number}").readlink()


def inside(folder: Path, path: Path) -> bytes | None:
    """Return `path` relative to `folder`; None if it is `folder` itself or not in it."""
    try:
        relative = path.relative_to(folder)
    except ValueError:
        return None
    return os.fsencode(relative) if relative.parts and ".." not in relative.parts else None


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
