"""Disarms repositories that commands made or changed, so that git runs nothing of theirs.

A user's `git status` looks into every repository that the index lists, and the user's next
command may run in any that was cloned or made. So at the end of a turn, whatever git could run from
those is removed. Everything is done through descriptors; their content is judged, never trusted.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from agentcli.git.config_files import Setting, is_harmless, sanitize_config
from agentcli.git.control_files import MOST_NAMES
from agentcli.git.quarantine import Identity, Quarantine, content, identity
from agentcli.git.removals import Removals
from agentcli.git.repositories import (
    git_folders_in,
    is_git_folder,
    is_worktree_folder,
    listed_repositories,
    main_folder,
)
from agentcli.git.seal import Finding
from agentcli.git.work_data import WorkData
from agentcli.workspace.git_layout import (
    DATA_FOLDERS,
    GIT,
    named_place,
    pointed_place,
    real_place,
)
from agentcli.workspace.names import display_path
from agentcli.workspace.opening import opened_below, opened_folder
from agentcli.workspace.private import listable
from agentcli.workspace.rooted_folder import walk
from agentcli.workspace.set_id import clear_set_id, hands_down_its_group

_MOST_ENTRIES = 50_000
"""How many entries of a workspace are searched for repositories."""


def repositories(root: Path, *, closed_since_ns: int | None = None) -> Iterator[Path]:
    """Yield every `.git` below `root`, and every git folder with another name; not all of them if
    there are very many files. Folders that were closed to listing since then are opened."""
    waiting = [str(root)]
    left = _MOST_ENTRIES
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


EntryVersion = tuple[int, int, int]
"""Device, inode, and time of the last status change in ns."""


def _version(info: os.stat_result) -> EntryVersion:
    return info.st_dev, info.st_ino, info.st_ctime_ns


@dataclass
class Inventory:
    """`folders` are git folders. `fresh` are the entries in them that changed so shortly before
    commands began that the time alone does not tell which came first, and those that were found to
    be harmless since."""

    folders: set[tuple[Path, Identity]] = field(default_factory=set)
    fresh: set[EntryVersion] = field(default_factory=set)


def inventory(roots: Sequence[Path], since_ns: int) -> Inventory:
    """Take an inventory of the repositories in `roots`, before commands run there."""
    found = Inventory()
    for path in (path for root in roots for path in repositories(root)):
        with contextlib.suppress(OSError):
            found.folders.add((path, identity(path.lstat())))
        found.fresh |= set(_fresh(path, since_ns))
    return found


def _fresh(path: Path, since_ns: int) -> Iterator[EntryVersion]:
    names = [str(path)]
    for folder, folders, files in walk(path):
        folders[:] = [name for name in folders if name not in DATA_FOLDERS]
        names += [os.path.join(folder, name) for name in (*folders, *files)]  # noqa: PTH118
    for name in names:
        with contextlib.suppress(OSError):
            info = os.lstat(name)
            if info.st_ctime_ns >= since_ns:
                yield _version(info)


def disarm_all(top: Path, aside: Path) -> list[Finding]:
    """Disarm every repository below `top`, none of which is the user's. What was removed is kept in
    the folder `aside`."""
    removals = Removals(Quarantine(aside))
    Disarmer([top], 0, (), Inventory(), {}, removals).run()
    return removals.findings


@dataclass
class Disarmer:
    """Disarms repositories. `roots` are where commands could write, since `since_ns`; `before` is
    what was there then; `sealed` are the watched paths, git folders and others; `todos` are the
    lines of rebase todo lists that ran a program even before that, by path."""

    roots: Sequence[Path]
    since_ns: int
    sealed: Collection[Path]
    before: Inventory
    todos: dict[str, list[bytes]]
    removals: Removals
    _seen: set[Path] = field(default_factory=set)

    def run(self) -> None:
        for folder in self.sealed:
            self._seen.add(folder)
            self._data.disarm(folder)
        for root in self.roots:
            # Repositories in an index count wherever they are, because `git status` visits them.
            self._linked(root)
            for found in repositories(root, closed_since_ns=self.since_ns):
                self._repository(found)

    def git_folder(self, path: Path) -> None:
        """Disarm the git folder at `path` and those within it."""
        for folder in git_folders_in(path) if path not in self._seen else ():
            if folder not in self._seen:
                self._seen.add(folder)
                with contextlib.suppress(OSError), opened_folder(folder, forced=True) as handle:
                    self._controls(folder, handle)
                self._data.disarm(folder)

    @property
    def _data(self) -> WorkData:
        return WorkData(self.removals, self._is_new, self._is_ours, self._know, self.todos)

    # --- finding repositories -------------------------------------------------------------------

    def _linked(self, root: Path) -> None:
        waiting = [root]
        been: set[Path] = set()
        while waiting:
            place = waiting.pop()
            been.add(place)
            for inner in listed_repositories(place):
                if inner not in been:
                    self._repository(inner / GIT)
                    waiting.append(inner)

    def _repository(self, found: Path) -> None:
        """Disarm `found`, a `.git` of any kind or a git folder with another name."""
        try:
            info = found.lstat()
        except OSError:
            return
        if stat.S_ISDIR(info.st_mode):
            self.git_folder(found)
        elif found not in self._seen and self._is_new(info):
            self._seen.add(found)
            self._pointer(found)

    def _pointer(self, found: Path) -> None:
        """Disarm a `.git` that commands made and that is not a folder."""
        with contextlib.suppress(OSError), opened_folder(found.parent, forced=True) as handle:
            place = None
            with contextlib.suppress(OSError):
                place = pointed_place(content(handle, GIT) or b"")
            target = None if place is None else real_place(found.parent, place)
            if target is not None and self._is_ours(target) and is_git_folder(main_folder(target)):
                self.git_folder(target)
                self.git_folder(main_folder(target))
            else:
                self.removals.take(found.parent, handle, GIT)

    def _is_ours(self, place: Path) -> bool:
        return any(place.is_relative_to(root) for root in self.roots)

    # --- disarming git folders ------------------------------------------------------------------

    def _controls(self, path: Path, handle: int) -> None:
        top = os.fstat(handle)
        # In a git folder that was there before and has not been replaced, unchanged entries are the
        # user's.
        is_old = (path, identity(top)) in self.before.folders or not self._is_new(top)
        for name in _names(handle):
            # What vanishes meanwhile must not end the search.
            with contextlib.suppress(OSError):
                info = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if name == "hooks" and stat.S_ISDIR(info.st_mode):
                    self._hooks(path, handle, every=not is_old or self._is_new(info))
                elif is_old and not self._is_new(info):
                    continue
                elif name in ("config", "config.worktree") and stat.S_ISREG(info.st_mode):
                    self._settings(path, handle, name)
                elif name == "commondir":
                    self._common(path, handle)
                elif stat.S_ISLNK(info.st_mode) or name in ("config", "hooks", "remotes"):
                    self.removals.take(path, handle, name)

    def _hooks(self, path: Path, handle: int, *, every: bool) -> None:
        with opened_below(handle, "hooks", forced=True) as folder:
            names = _names(folder)
            if len(names) > MOST_NAMES:
                self.removals.take(path, handle, "hooks")
                return
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    is_sample = name.endswith(".sample") and stat.S_ISREG(info.st_mode)
                    if not is_sample and (every or self._is_new(info)):
                        self.removals.take(path / "hooks", folder, name)

    def _is_new(self, info: os.stat_result) -> bool:
        """Return whether it was created, changed or moved here since commands began: nobody can
        choose its ctime."""
        return info.st_ctime_ns >= self.since_ns and _version(info) not in self.before.fresh

    def _know(self, info: os.stat_result) -> None:
        self.before.fresh.add(_version(info))

    def _common(self, path: Path, handle: int) -> None:
        text = b""
        with contextlib.suppress(OSError):
            text = content(handle, "commondir") or b""
        home = real_place(path, named_place(text))
        if not (is_worktree_folder(path) and home == path.parent.parent):
            self.removals.take(path, handle, "commondir")

    def _settings(self, path: Path, handle: int, name: str) -> None:
        data = content(handle, name)
        if data is None:
            self.removals.take(path, handle, name)
            return

        def keep(setting: Setting) -> bool:
            if setting.name == "core.worktree":
                return self._is_ours(real_place(path, setting.value or ""))
            return is_harmless(setting)

        if (less := sanitize_config(data, keep)) is None:
            return
        done = f"removed {', '.join(map(display_path, less.removed[:5]))}"
        self.removals.replace(path, handle, name, data, less.text, done)


def _names(handle: int) -> list[str]:
    with os.scandir(handle) as entries:
        return [entry.name for entry in entries]


def set_ids_cleared(roots: Sequence[Path], since_ns: int) -> Iterator[Finding]:
    """Clear the set-user-ID and set-group-ID bits that commands could set: elsewhere the filter of
    system calls refuses them."""
    for root in roots:
        if sys.platform != "linux" or hands_down_its_group(root):
            for path in clear_set_id(root, since_ns):
                why_so = "others who start it would get its group's rights"
                yield Finding(path, "its set-ID bits were cleared", why_so)
