"""Disarms repositories that commands made or changed, so that git runs nothing of theirs.

A user's `git status` looks into every repository that the index lists, and the user's next
command may run in any that was cloned or made. So at the end of a turn, whatever git could run from
those is removed. Everything is done through descriptors; their content is judged, never trusted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from agentcli.files.git_layout import (
    DATA_FOLDERS,
    GIT,
    named_place,
    pointed_place,
    real_place,
)
from agentcli.files.names import display_path
from agentcli.files.opening import opened_below, opened_folder
from agentcli.git.config_files import Setting, is_harmless, parse, sanitize_config
from agentcli.git.control_files import MOST_NAMES
from agentcli.git.quarantine import Identity, Quarantine, content, identity
from agentcli.git.repositories import (
    git_folders_in,
    is_git_folder,
    is_worktree_folder,
    listed_repositories,
)
from agentcli.git.seal import Finding, why

_MOST_ENTRIES = 50_000
"""How many entries of a workspace are searched for repositories."""
_MOST_REPOSITORIES = 500
_MOST_LINKS_SEARCHED = 20_000
_TODO = "rebase-merge/git-rebase-todo"
_STRATEGIES = {"", "ort", "recursive", "resolve", "octopus", "ours", "subtree"}
"""Any other name is a program that git looks for, even in the workspace."""


def repositories(root: Path) -> Iterator[Path]:
    """Yield every `.git` below `root`, and every git folder with another name; not all of them if
    there are very many files."""
    waiting = [str(root)]
    left = _MOST_ENTRIES
    while waiting and left > 0:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(islice(found, left))
        except OSError:
            continue
        left -= len(entries)
        names = {entry.name for entry in entries}
        if {"HEAD", "objects", "refs"} <= names or {"HEAD", "commondir"} <= names:
            yield Path(folder)
            continue
        if GIT in names:
            yield Path(folder, GIT)
        waiting += [
            entry.path
            for entry in entries
            if entry.name != GIT and entry.is_dir(follow_symlinks=False)
        ]


def _runs_program(line: bytes) -> bool:
    """Return whether a line of a rebase's todo list does."""
    return line.split(None, 1)[:1] in ([b"exec"], [b"x"])


EntryVersion = tuple[int, int, int]
"""Device, inode, and time of the last status change in ns."""


def _version(info: os.stat_result) -> EntryVersion:
    return info.st_dev, info.st_ino, info.st_ctime_ns


@dataclass
class Inventory:
    """`folders` are git folders. `fresh` are the entries in them that changed so shortly before
    commands began that the time alone does not tell which came first."""

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
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in DATA_FOLDERS]
        names += [os.path.join(folder, name) for name in (*folders, *files)]  # noqa: PTH118
    for name in names:
        with contextlib.suppress(OSError):
            info = os.lstat(name)
            if info.st_ctime_ns >= since_ns:
                yield _version(info)


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
    quarantine: Quarantine
    findings: list[Finding] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def run(self) -> list[Finding]:
        for folder in self.sealed:
            self._seen.add(folder)
            self._data(folder)
        for root in self.roots:
            # Repositories in an index count wherever they are, because `git status` visits them.
            self._linked(root)
            for found in repositories(root):
                self._repository(found)
                if len(self._seen) > _MOST_REPOSITORIES:
                    break
        return self.findings

    def git_folder(self, path: Path) -> None:
        """Disarm the git folder at `path` and those within it."""
        for folder in git_folders_in(path) if path not in self._seen else ():
            if folder not in self._seen:
                self._seen.add(folder)
                with contextlib.suppress(OSError), opened_folder(folder) as handle:
                    self._controls(folder, handle)
                self._data(folder)

    # --- finding repositories -------------------------------------------------------------------

    def _linked(self, root: Path) -> None:
        waiting = [root]
        been: set[Path] = set()
        while waiting and len(been) < _MOST_REPOSITORIES:
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
        with contextlib.suppress(OSError), opened_folder(found.parent) as handle:
            place = None
            with contextlib.suppress(OSError):
                place = pointed_place(content(handle, GIT) or b"")
            target = None if place is None else real_place(found.parent, place)
            if target is not None and self._is_ours(target) and is_git_folder(_main(target)):
                self.git_folder(target)
                self.git_folder(_main(target))
            else:
                self._take(found.parent, handle, GIT)

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
                    self._take(path, handle, name)

    def _hooks(self, path: Path, handle: int, *, every: bool) -> None:
        with opened_below(handle, "hooks") as folder:
            for name in _names(folder):
                with contextlib.suppress(FileNotFoundError):
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    is_sample = name.endswith(".sample") and stat.S_ISREG(info.st_mode)
                    if not is_sample and (every or self._is_new(info)):
                        self._take(path / "hooks", folder, name)

    def _is_new(self, info: os.stat_result) -> bool:
        """Return whether it was created, changed or moved here since commands began: nobody can
        choose its ctime."""
        return info.st_ctime_ns >= self.since_ns and _version(info) not in self.before.fresh

    def _common(self, path: Path, handle: int) -> None:
        text = b""
        with contextlib.suppress(OSError):
            text = content(handle, "commondir") or b""
        home = real_place(path, named_place(text))
        if not (is_worktree_folder(path) and home == path.parent.parent):
            self._take(path, handle, "commondir")

    def _settings(self, path: Path, handle: int, name: str) -> None:
        data = content(handle, name)
        if data is None:
            self._take(path, handle, name)
            return

        def keep(setting: Setting) -> bool:
            if setting.name == "core.worktree":
                return self._is_ours(real_place(path, setting.value or ""))
            return is_harmless(setting)

        if (less := sanitize_config(data, keep)) is None:
            return
        kept = self.quarantine.replace(handle, name, data, less.text)
        done = f"removed {', '.join(map(display_path, less.removed[:5]))}"
        self.findings.append(Finding(path / name, done, why(name), kept))

    # --- files that git's daily work reads ------------------------------------------------------

    def _data(self, path: Path) -> None:
        with contextlib.suppress(OSError), opened_folder(path) as handle:
            for name in ("logs", "refs"):
                self._links(path, handle, name)
            with contextlib.suppress(OSError), opened_below(handle, "rebase-merge") as rebase:
                self._todo(path, rebase)
                self._strategy(path / "rebase-merge", rebase, "strategy", lambda text: text)
            with contextlib.suppress(OSError), opened_below(handle, "sequencer") as sequencer:
                self._strategy(path / "sequencer", sequencer, "opts", _strategy_of)

    def _links(self, path: Path, handle: int, name: str) -> None:
        """Remove new symlinks: git writes to the target of a linked log, and others can choose what
        it writes."""
        waiting = [name]
        left = _MOST_LINKS_SEARCHED
        while waiting and left > 0:
            place = waiting.pop()
            with contextlib.suppress(OSError), opened_below(handle, place) as folder:
                with os.scandir(folder) as found:
                    entries = list(islice(found, left))
                left -= len(entries)
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{place}/{entry.name}")
                    elif entry.is_symlink() and self._is_new(entry.stat(follow_symlinks=False)):
                        self._take(path / place, folder, entry.name)

    def _todo(self, path: Path, rebase: int) -> None:
        name = _TODO.rpartition("/")[2]
        data = content(rebase, name)
        before = list(self.todos.get(str(path / _TODO), ()))
        if data is None:
            self._take(path / "rebase-merge", rebase, name)
            return
        lines = data.split(b"\n")
        for number, line in enumerate(lines):
            if line in before:
                before.remove(line)
            elif _runs_program(line):
                lines[number] = b"noop"
        if (text := b"\n".join(lines)) != data:
            kept = self.quarantine.replace(rebase, name, data, text)
            done = "removed the commands that `git rebase --continue` would run"
            self.findings.append(Finding(path / _TODO, done, "commands added them", kept))

    def _strategy(self, path: Path, folder: int, name: str, strategy: Callable[[str], str]) -> None:
        """Remove a file that names an unknown merge strategy, which would be a program."""
        data = content(folder, name)
        text = (data or b"").decode(errors="surrogateescape")
        if data is None or strategy(text.strip()) not in _STRATEGIES:
            self._take(path, folder, name)

    def _take(self, path: Path, folder: int, name: str) -> None:
        done, kept = "set aside", None
        try:
            kept = self.quarantine.take(folder, name)
        except FileNotFoundError:
            return
        except OSError as error:
            done = f"could not be set aside: {error.strerror or error}"
        place = path / name
        self.findings.append(Finding(place, done, why(f"{path.name}/{name}"), kept))


def _names(handle: int) -> list[str]:
    with os.scandir(handle) as entries:
        return [entry.name for entry in islice(entries, MOST_NAMES)]


def todos_of(folders: Collection[Path]) -> dict[str, list[bytes]]:
    """Return the lines that run a program in the rebase todo lists of these git folders, by
    path."""
    found = {}
    for path in folders:
        with contextlib.suppress(OSError), opened_folder(path / "rebase-merge") as rebase:
            data = content(rebase, _TODO.rpartition("/")[2])
            lines = (data or b"").split(b"\n")
            found[str(path / _TODO)] = list(filter(_runs_program, lines))
    return found


def _strategy_of(text: str) -> str:
    settings = parse(text.encode(errors="surrogateescape"))
    if settings is None:
        return "unknown"
    named = [value or "" for name, value in settings if name == "options.strategy"]
    return next((value for value in named if value not in _STRATEGIES), "")


def _main(folder: Path) -> Path:
    return folder.parent.parent if is_worktree_folder(folder) else folder
