"""Where the git repository of a folder keeps its data, found without running git.

A `.git` file comes with whatever archive the folder was unpacked from, so what it names is
believed only as far as the place it names confirms it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAX_FILE_BYTES = 65_536
_MOST_SUBMODULES = 200
_WORKTREE_CONFIG = re.compile(rb"^\s*worktreeconfig\s*(?:=\s*(?:true|yes|on|1)\s*)?$", re.I | re.M)


@dataclass(frozen=True)
class Repository:
    """`root` holds `.git`; `folders` are those git writes its data to: `.git` itself or, for a
    worktree, the folder that all worktrees share."""

    root: Path
    folders: tuple[Path, ...]

    def protected(self) -> tuple[Path, ...]:
        """What tells git to run programs or to look elsewhere, whether it is there or not."""
        dot_git = self.root / ".git"
        found = [] if dot_git.is_dir() and not dot_git.is_symlink() else [dot_git]
        for folder in self.folders:
            found += _controls(folder)
            for module in _submodules(folder):
                found += _controls(module)
            for worktree in _entries(folder / "worktrees"):
                found += [worktree / "commondir", worktree / "gitdir"]
                found += [worktree / "config.worktree"] if _reads_worktree_config(folder) else []
        return tuple(found)


def find_repository(folder: Path) -> Repository | None:
    """Of the nearest enclosing folder that has a `.git` which holds what it should."""
    for root in (folder, *folder.parents):
        dot_git = root / ".git"
        if dot_git.is_symlink():
            continue
        if is_git_folder(dot_git):
            return Repository(root, (dot_git,))
        if dot_git.is_file() and (data := _pointed_folder(dot_git)) is not None:
            return Repository(root, (data,))
    return None


def is_git_folder(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _controls(folder: Path) -> list[Path]:
    found = [folder / "hooks", folder / "config"]
    return found + ([folder / "config.worktree"] if _reads_worktree_config(folder) else [])


def _pointed_folder(dot_git: Path) -> Path | None:
    """What a worktree's or a submodule's `.git` file names, if that place agrees."""
    text = _read(dot_git)
    if not text.startswith(b"gitdir: "):
        return None
    data = _resolved(dot_git.parent, text[len(b"gitdir: ") :])
    if _resolved(data, _read(data / "gitdir")) == dot_git:
        common = _resolved(data, _read(data / "commondir"))
        if data.parent == common / "worktrees" and is_git_folder(common):
            return common
    modules = (parent / ".git" / "modules" for parent in dot_git.parent.parents)
    if any(data.is_relative_to(folder) for folder in modules) and is_git_folder(data):
        return data
    return None


def _submodules(folder: Path) -> Iterator[Path]:
    """Their names may hold slashes, so they are looked for at any depth."""
    count = 0
    top = folder / "modules"
    # Links lead to places that are nobody's to open.
    for place, names, files in os.walk(top) if not top.is_symlink() else ():
        if "HEAD" in files and "objects" in names:
            yield Path(place)
            names[:] = ["modules"] if "modules" in names else []
            count += 1
            if count == _MOST_SUBMODULES:
                return


def _entries(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return []
    try:
        return sorted(path for path in folder.iterdir() if not path.is_symlink())
    except OSError:
        return []


def _reads_worktree_config(folder: Path) -> bool:
    return _WORKTREE_CONFIG.search(_read(folder / "config")) is not None


def _resolved(base: Path, text: bytes) -> Path:
    return (base / os.fsdecode(text.strip())).resolve()


def _read(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError:
        return b""
