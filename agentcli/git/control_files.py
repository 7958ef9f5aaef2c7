"""Finds the files of a git folder that git's daily work does not change, after each command.

The names in a folder are cached for as long as its times show that none was added or removed. That
makes a look cost 62 µs instead of 169.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from agentcli.git.quarantine import SETTLED_NS
from agentcli.git.repositories import FolderListing, inner_git_folders
from agentcli.workspace.git_layout import (
    DATA_FOLDERS,
    INFO,
    LOCKED,
    MODULES,
    MONITOR,
    TRIAL,
    WORKTREES,
    is_routine_info_name,
    is_routine_name,
)
from agentcli.workspace.opening import opened_below

MOST_NAMES = 5_000
_MOST_FOUND = 500
_GONE = (FileNotFoundError, NotADirectoryError)

Infos = dict[str, os.stat_result]
T = TypeVar("T")


class TooManyEntries(Exception):
    """A folder holds more than can be searched."""


@dataclass(frozen=True)
class _Top:
    """What the top of a git folder holds: the names to look at, whether there is an `info`, and
    which folders of git folders (`modules`, `worktrees`)."""

    names: tuple[str, ...]
    has_info: bool
    containers: tuple[str, ...]


class _Remembered(Generic[T]):
    """Caches what was found in folders, by their places, together with the folders' times."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[tuple[int, ...], T]] = {}

    def kept(self, place: str, info: os.stat_result) -> T | None:
        """Return what was found at `place`, if the folder has not changed since."""
        found = self._found.get(place)
        return found[1] if found is not None and found[0] == _key(info) else None

    def get(self, handle: int, place: str, find: Callable[[list[os.DirEntry[str]]], T]) -> T:
        info = os.fstat(handle)
        if (kept := self.kept(place, info)) is not None:
            return kept
        looked_at = time.time_ns()
        found = find(_entries(handle))
        self._found.pop(place, None)
        if info.st_ctime_ns < looked_at - SETTLED_NS:
            self._found[place] = _key(info), found
        return found


def _key(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns


class ControlFiles:
    """The control files of one folder: a git folder, that of a worktree, or any folder if `names`
    lists the entries to look at. `folders` are the places of the git folders within it, as last
    seen."""

    def __init__(self, names: frozenset[str] | None, *, is_worktree: bool) -> None:
        self._names = names
        self._is_worktree = is_worktree
        self._tops: _Remembered[_Top] = _Remembered()
        self._inner: _Remembered[tuple[str, ...]] = _Remembered()
        self._listings: _Remembered[FolderListing] = _Remembered()
        self.folders: set[str] = set()

    def found(self, handle: int) -> Infos:
        """Return what is there, by place. Raises TooManyEntries, or OSError if it can't be read."""
        found: Infos = {}
        if self._names is not None:
            for name in self._names:
                self._add(found, handle, name)
            return found
        top = self._tops.get(handle, "", self._top)
        for name in top.names:
            self._add(found, handle, name)
        if top.has_info:
            with contextlib.suppress(*_GONE):
                info = os.stat(INFO, dir_fd=handle, follow_symlinks=False)
                self._into(found, handle, INFO, info, is_routine_info_name)
        self.folders = self._git_folders(handle, top.containers)
        return found

    def _top(self, entries: list[os.DirEntry[str]]) -> _Top:
        names, containers = [], []
        has_info = False
        for entry in entries:
            name, is_folder = entry.name, entry.is_dir(follow_symlinks=False)
            if name == INFO and is_folder:
                has_info = True
            elif name in (MODULES, WORKTREES) and is_folder:
                containers.append(name)
            elif not self._is_routine(entry, is_folder=is_folder):
                names.append(name)
        return _Top(tuple(names), has_info, tuple(containers))

    def _is_routine(self, entry: os.DirEntry[str], *, is_folder: bool) -> bool:
        name = entry.name
        if TRIAL.fullmatch(name) or (self._is_worktree and name in (LOCKED, "gitdir")):
            return True
        if name in DATA_FOLDERS:
            return is_folder
        if name == MONITOR:
            return True
        return is_routine_name(name) and entry.is_file(follow_symlinks=False)

    def _add(self, found: Infos, handle: int, place: str) -> None:
        with contextlib.suppress(*_GONE):
            above, _, name = place.rpartition("/")
            if above:
                with opened_below(handle, above, forced=True) as folder:
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            else:
                info = os.stat(name, dir_fd=handle, follow_symlinks=False)
            found[place] = info
            if stat.S_ISDIR(info.st_mode):
                self._into(found, handle, place, info, _is_sample)

    def _into(
        self,
        found: Infos,
        handle: int,
        place: str,
        info: os.stat_result,
        skip: Callable[[str], bool],
    ) -> None:
        if self._inner.kept(place, info) == ():
            return

        def names(entries: list[os.DirEntry[str]]) -> tuple[str, ...]:
            return tuple(
                entry.name
                for entry in entries
                if not (skip(entry.name) and entry.is_file(follow_symlinks=False))
            )

        with contextlib.suppress(OSError), opened_below(handle, place, forced=True) as folder:
            for name in self._inner.get(folder, place, names):
                if len(found) < _MOST_FOUND:
                    self._add(found, handle, f"{place}/{name}")

    def _git_folders(self, handle: int, containers: Iterable[str]) -> set[str]:
        looked_at = count()

        def listed(place: str) -> FolderListing:
            if next(looked_at) == MOST_NAMES:
                raise TooManyEntries
            with contextlib.suppress(OSError), opened_below(handle, place, forced=True) as folder:
                return self._listings.get(folder, place, FolderListing.of)
            return FolderListing()

        return set(inner_git_folders(listed, containers))


def _is_sample(name: str) -> bool:
    """Sample hooks come with git, which does not run them."""
    return name.endswith(".sample")


def _entries(handle: int) -> list[os.DirEntry[str]]:
    with os.scandir(handle) as entries:
        found = [entry for entry, _ in zip(entries, range(MOST_NAMES + 1), strict=False)]
    if len(found) > MOST_NAMES:
        raise TooManyEntries
    return found
