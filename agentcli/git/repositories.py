"""Finds where the git repository of a folder keeps its data, without running git.

A `.git` file may come from whatever archive the folder was unpacked from, so the place it names is
trusted only if that place confirms it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from agentcli.git.config import parse
from agentcli.git.index import GITLINK, GITLINK_MODE, LARGEST, read_index
from agentcli.workspace.names import GENERATED
from agentcli.workspace.opening import opened_folder
from agentcli.workspace.private import listable, read_private
from agentcli.workspace.scope import (
    DATA_FOLDERS,
    GIT,
    INFO,
    MODULES,
    WORKTREES,
    is_routine_info_name,
    is_routine_name,
    named_place,
    pointed_place,
    real_place,
)

_MAX_FILE_BYTES = 65_536
_LARGEST_CONFIG = 1_000_000
_MOST_FOLDERS = 400
_MOST_ENTRIES = 100
_MOST_LOOKED_AT = 2_000
_MOST_NESTED = 40
_NOT_NEAR = {GIT, *GENERATED}
_MOST_SEARCHED = 50_000
"""How many entries of a workspace are searched for repositories."""
_SIGNS = frozenset(("HEAD", "config", "commondir"))
"""What only a git folder holds within another one."""
_ALWAYS = ("hooks", "config", "commondir", "info/attributes")
"""Protected whether they exist or not, if the layer can protect a name."""


@dataclass(frozen=True)
class Repository:
    """`root` contains `.git`, or is a git folder itself. `folders` are where git writes its data:
    `.git` itself or, for a worktree, the folder that all worktrees share."""

    root: Path
    folders: tuple[Path, ...]

    @property
    def pointer(self) -> Path | None:
        """The `.git` that is not a folder but says where that is, if there is one."""
        dot_git = self.root / GIT
        if self.root in self.folders or (dot_git.is_dir() and not dot_git.is_symlink()):
            return None
        return dot_git

    def git_folders(self) -> tuple[Path, ...]:
        """Return the repository's git folders and those of submodules and worktrees in them."""
        found = chain.from_iterable(map(git_folders_in, self.folders))
        return tuple(islice(found, _MOST_FOLDERS))

    def protected(self) -> tuple[Path, ...]:
        """Return what git's daily work does not change: what tells git to run programs or to look
        elsewhere, and what is unknown."""
        found = [self.pointer] if self.pointer is not None else []
        for folder in self.git_folders():
            found += controls(folder, all_of_them=folder in self.folders)
        return tuple(dict.fromkeys(found))


def find_repository(folder: Path) -> Repository | None:
    """Return the repository of the nearest enclosing folder that has a valid `.git` or is a git
    folder itself."""
    for root in (folder, *folder.parents):
        if is_git_folder(root) and (root / "refs").is_dir():
            return Repository(root, (root,))
        if found := repository_at(root):
            return found
    return None


def repository_at(root: Path) -> Repository | None:
    """Return the repository whose `.git` is directly in the folder `root`."""
    dot_git = root / GIT
    if dot_git.is_symlink():
        return None
    if is_git_folder(dot_git):
        return Repository(root, (dot_git,))
    if dot_git.is_file() and (data := _pointed_folder(dot_git)) is not None:
        return Repository(root, (data,))
    return None


def is_git_folder(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def is_worktree_folder(folder: Path) -> bool:
    """Return whether a git folder is the private one of a worktree."""
    return folder.parent.name == WORKTREES and is_git_folder(folder.parent.parent)


def main_folder(folder: Path) -> Path:
    """Return the git folder that a git folder of a worktree belongs to; any other as it is."""
    return folder.parent.parent if is_worktree_folder(folder) else folder


def controls(folder: Path, *, all_of_them: bool = True) -> list[Path]:
    """Return what git's daily work does not change in a git folder; without `all_of_them`, only
    what git runs or trusts."""
    if is_worktree_folder(folder):
        return [folder / name for name in ("commondir", "gitdir", "config.worktree")]
    found = [folder / name for name in _ALWAYS]
    if _reads_worktree_config(folder):
        found.append(folder / "config.worktree")
    if all_of_them:
        found += _unknown(folder)
    return found


def nested_repositories(root: Path) -> list[Repository]:
    """Return the repositories within the folder `root`: the submodules in its index, and what lies
    near the top. If a `.git` file names a place that does not confirm it, the repository has no
    folders."""
    found: dict[Path, Repository] = {}
    for folder in _near(root):
        if len(found) == _MOST_NESTED:
            break
        # Most folders have no `.git`, and creating a Path is expensive.
        if os.path.lexists(f"{folder}/{GIT}") and not (folder / GIT).is_symlink():
            found[folder] = repository_at(folder) or Repository(folder, ())
    return list(found.values())


def top_of(folder: Path) -> Path | None:
    """Return the nearest enclosing folder that git would take as a working tree."""
    return next((f for f in (folder, *folder.parents) if os.path.lexists(f / GIT)), None)


def folders_of(top: Path) -> tuple[Path, Path]:
    """Return the git folder of a working tree, and the one it shares with other worktrees."""
    git_dir = top / GIT
    if git_dir.is_file():
        git_dir = top / (pointed_place(_read(git_dir)) or GIT)
    common = named_place(_read(git_dir / "commondir"))
    return git_dir, git_dir / common if common else git_dir


def listed_repositories(root: Path) -> Iterator[Path]:
    """Yield the places within `root` that its repository's index records as repositories."""
    folder, common = folders_of(root)

    def read(name: str) -> bytes | None:
        return read_private(folder / name, LARGEST, follow=True)

    # Going through all entries is slow, so first check whether any could be one.
    if GITLINK_MODE not in (read("index") or b"") and not any(folder.glob("sharedindex.*")):
        return
    index = read_index(read, object_id_bytes(common) or 20)
    for entry in index.entries if index is not None else ():
        if entry.kind == GITLINK and b"\0" not in entry.path:
            place = root / os.fsdecode(entry.path)
            if real_place(place, "") == place:
                yield place


def object_id_bytes(common: Path) -> int | None:
    """Return the length of object ids in the repository whose data are in the folder `common`; None
    if it has no settings."""
    data = read_private(common / "config", _LARGEST_CONFIG, follow=True)
    return None if data is None else id_bytes_by(data)


def id_bytes_by(settings: bytes) -> int:
    """Return the length of object ids in a repository with this file of settings."""
    if b"objectformat" not in settings.lower():
        return 20
    formats = [value for name, value in parse(settings) or () if name == "extensions.objectformat"]
    return 32 if formats[-1:] == ["sha256"] else 20


class FolderListing(NamedTuple):
    """What a folder holds: the names of its folders, and whether it looks like a git folder."""

    folders: tuple[str, ...] = ()
    is_git_folder: bool = False

    @classmethod
    def of(cls, entries: Iterable[os.DirEntry[str]]) -> FolderListing:
        is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        folders = tuple(filter(is_folder.get, is_folder))
        return cls(folders, not _SIGNS.isdisjoint(is_folder.keys() - folders))


def inner_git_folders(
    listed: Callable[[str], FolderListing], tops: Iterable[str] = (MODULES, WORKTREES)
) -> Iterator[str]:
    """Yield the places of the git folders in a git folder, without those within these: of its
    worktrees, and of its submodules at any depth, because their names may contain slashes. A stray
    file such as `modules/group/config` hides none of them. `listed` lists a place, and must not
    follow symlinks."""
    waiting = list(tops)
    while waiting:
        place = waiting.pop()
        found = listed(place)
        is_worktree = place.startswith(f"{WORKTREES}/")
        if is_worktree or (found.is_git_folder and place != MODULES):
            yield place
        if not is_worktree and not (found.is_git_folder and "objects" in found.folders):
            waiting += [f"{place}/{name}" for name in found.folders]


def git_folders_in(folder: Path) -> Iterator[Path]:
    """Yield the git folder at the real path `folder` and all within it."""
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        yield folder
        waiting += [folder / place for place in inner_git_folders(partial(_listed, folder))]


def git_folders_below(root: Path, *, closed_since_ns: int | None = None) -> Iterator[Path]:
    """Yield every `.git` below `root`, and every git folder with another name; not all of them if
    there are very many files. Folders that were closed to listing since then are opened."""
    waiting = [str(root)]
    left = _MOST_SEARCHED
    while waiting and left > 0:
        folder = waiting.pop()
        try:
            handle = listable(folder, closed_since_ns=closed_since_ns)
        except OSError:
            continue
        try:
            with os.scandir(handle) as found:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in islice(found, left)
                ]
        finally:
            os.close(handle)
        left -= len(entries)
        names = {name for name, _ in entries}
        if {"HEAD", "objects", "refs"} <= names or {"HEAD", "commondir"} <= names:
            # Whoever makes these three may have made more in there.
            yield Path(folder)
        if GIT in names:
            yield Path(folder, GIT)
        waiting += [
            f"{folder.rstrip('/')}/{name}" for name, is_dir in entries if is_dir and name != GIT
        ]


def _listed(folder: Path, place: str) -> FolderListing:
    with (
        suppress(OSError),
        opened_folder(folder / place, forced=True) as handle,
        os.scandir(handle) as entries,
    ):
        return FolderListing.of(entries)
    return FolderListing()


def _near(root: Path) -> Iterator[Path]:
    """Yield folders within `root` that may contain a `.git`."""
    yield from listed_repositories(root)
    left = _MOST_LOOKED_AT
    folders = [root]
    for _ in range(2):
        below = []
        for folder in folders:
            entries = _scan(folder, left)
            left -= len(entries)
            below += [
                Path(entry.path)
                for entry in entries
                if entry.name not in _NOT_NEAR and entry.is_dir(follow_symlinks=False)
            ]
        yield from below
        folders = below


def _unknown(folder: Path) -> list[Path]:
    """Return the entries that git's daily work does not make, except symlinks, which can't be
    covered individually."""
    found = []
    for entry in _scan(folder, _MOST_ENTRIES):
        name, is_folder = entry.name, entry.is_dir(follow_symlinks=False)
        if entry.is_symlink() or name in (MODULES, WORKTREES):
            continue
        if name == INFO and is_folder:
            inside = _scan(folder / INFO, _MOST_ENTRIES)
            found += [
                Path(e.path) for e in inside if not (e.is_symlink() or is_routine_info_name(e.name))
            ]
        elif not (name in DATA_FOLDERS if is_folder else is_routine_name(name)):
            found.append(Path(entry.path))
    return found


def _pointed_folder(dot_git: Path) -> Path | None:
    """Return the folder named by the `.git` file of a worktree or submodule, if that confirms
    it."""
    place = pointed_place(_read(dot_git))
    if place is None:
        return None
    data = real_place(dot_git.parent, place)
    if real_place(data, named_place(_read(data / "gitdir"))) == dot_git:
        common = real_place(data, named_place(_read(data / "commondir")))
        if data.parent == common / WORKTREES and is_git_folder(common):
            return common
    modules = (parent / GIT / MODULES for parent in dot_git.parent.parents)
    if any(data.is_relative_to(folder) for folder in modules) and is_git_folder(data):
        return data
    return None


def _scan(folder: Path, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry, _ in zip(entries, range(most), strict=False)]
    except OSError:
        return []
    return sorted(found, key=lambda entry: entry.name)


def _reads_worktree_config(folder: Path) -> bool:
    data = _read(folder / "config")
    if b"worktreeconfig" not in data.lower():
        return False
    return any(
        name == "extensions.worktreeconfig" and value not in ("false", "no", "off", "0", "")
        for name, value in parse(data) or ()
    )


def _read(path: Path) -> bytes:
    return read_private(path, _MAX_FILE_BYTES, follow=True) or b""
