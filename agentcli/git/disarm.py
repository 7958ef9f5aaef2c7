"""Disarms repositories that commands made or changed, so that git runs nothing of theirs.

A user's `git status` looks into every repository that the index lists, and the user's next
command may run in any that was cloned or made. So at the end of a turn, whatever git could run from
those is removed, and so are forged entries of the index, state of merges and rebases, and links by
which git would write elsewhere. Everything is done through descriptors; their content is judged,
never trusted."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentcli.git.baseline import MOST_NAMES
from agentcli.git.config import Setting, is_harmless, parse, sanitize_config
from agentcli.git.index import LARGEST, Index, index_data, is_refused, read_index, refused
from agentcli.git.quarantine import SETTLED_NS, Finding, Quarantine, Removals, content, identity
from agentcli.git.repositories import (
    git_folders_below,
    git_folders_in,
    is_git_folder,
    is_worktree_folder,
    listed_repositories,
    main_folder,
    object_id_bytes,
)
from agentcli.git.watch_record import Inventory, entry_version
from agentcli.workspace.names import display_path, first_names
from agentcli.workspace.opening import (
    clear_set_id,
    hands_down_its_group,
    opened_below,
    opened_folder,
)
from agentcli.workspace.private import read_private, read_regular
from agentcli.workspace.scope import (
    DATA_FOLDERS,
    GIT,
    MODULES,
    WORKTREES,
    named_place,
    pointed_place,
    real_place,
)

_LONGEST_PATH = 4096
"""git opens no file with a longer path."""
_MOST_NAMED = 3
_TODO = "rebase-merge/git-rebase-todo"
_STRATEGIES = {"", "ort", "recursive", "resolve", "octopus", "ours", "subtree"}
"""Any other name is a program that git looks for, even in the workspace."""
_WRITTEN_TO = (
    *("logs", "refs", "reftable", "rebase-merge", "rebase-apply", "sequencer", "rr-cache"),
    *("NOTES_MERGE_WORKTREE", "lfs", "objects/info"),
)
"""Folders with files that git opens to write to, whatever they are links to."""
_HOLD_FOLDERS = ("objects", WORKTREES)
"""Folders of folders that git writes to, or removes with all that is in them."""
_OF_PATCHES = re.compile(
    r"(?:\s*'(?:-[Cp]\d+|--(?:whitespace|exclude|include|directory)=[^'\\]*"
    r"|--ignore-(?:space-change|whitespace)|--reject)')*\s*",
    re.ASCII,
)
"""What `git am` hands on to `git apply`, which has options that write elsewhere."""

RESOLUTIONS = "MERGE_RR"
"""The file that says which files were in conflict, by what they had in it."""


def resolved_paths(data: bytes) -> Iterator[bytes]:
    """Yield the paths that RESOLUTIONS names."""
    return (record.partition(b"\t")[2] for record in data.split(b"\0") if record)


def todos_of(folders: Collection[Path]) -> dict[str, list[bytes]]:
    """Return the lines that run a program in the rebase todo lists of these git folders, by
    path."""
    found = {}
    for path in folders:
        with (
            contextlib.suppress(OSError),
            opened_folder(path / "rebase-merge", forced=True) as rebase,
        ):
            data = content(rebase, _TODO.rpartition("/")[2])
            lines = (data or b"").split(b"\n")
            found[str(path / _TODO)] = list(filter(_runs_program, lines))
    return found


def _runs_program(line: bytes) -> bool:
    """Return whether a line of a rebase's todo list does."""
    return line.split(None, 1)[:1] in ([b"exec"], [b"x"])


def _strategy_of(text: str) -> str:
    settings = parse(text.encode(errors="surrogateescape"))
    if settings is None:
        return "unknown"
    named = [value or "" for name, value in settings if name == "options.strategy"]
    return next((value for value in named if value not in _STRATEGIES), "")


def _read_index_file(handle: int, name: str) -> bytes | None:
    with contextlib.suppress(OSError):
        return read_regular(name, LARGEST, folder=handle)[0]
    return None


def _leads_out(place: bytes, top: Path | None) -> bool:
    """Return whether git refuses to write to `place` in the working tree `top`, or it leads through
    a link."""
    if not place:
        return False
    if is_refused(place):
        return True
    found = None if top is None else top / os.fsdecode(place)
    return found is not None and any(
        part.is_symlink() for part in (found, *found.parents) if part != top and top in part.parents
    )


def disarm_all(top: Path, aside: Path) -> list[Finding]:
    """Disarm every repository below `top`, none of which is the user's. What was removed is kept in
    the folder `aside`."""
    removals = Removals(Quarantine(aside))
    Disarmer([top], 0, (), Inventory(), {}, removals).run()
    return removals.findings


@dataclass
class Disarmer:
    """Disarms repositories. `roots` are where commands could write, since `since_ns`; `before` is
    what was there then; `known` are the watched paths, git folders and others; `todos` are the
    lines of rebase todo lists that ran a program even before that, by path."""

    roots: Sequence[Path]
    since_ns: int
    known: Collection[Path]
    before: Inventory
    todos: dict[str, list[bytes]]
    removals: Removals
    _seen: set[Path] = field(default_factory=set)

    def run(self) -> None:
        for folder in self.known:
            self._seen.add(folder)
            self._work_data(folder)
        for root in self.roots:
            # Repositories in an index count wherever they are, because `git status` visits them.
            self._linked(root)
            for found in git_folders_below(root, closed_since_ns=self.since_ns):
                self._repository(found)

    def git_folder(self, path: Path) -> None:
        """Disarm the git folder at `path` and those within it."""
        for folder in git_folders_in(path) if path not in self._seen else ():
            if folder not in self._seen:
                self._seen.add(folder)
                with contextlib.suppress(OSError), opened_folder(folder, forced=True) as handle:
                    self._controls(folder, handle)
                self._work_data(folder)

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
        return info.st_ctime_ns >= self.since_ns and entry_version(info) not in self.before.fresh

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

    # --- what daily work writes -----------------------------------------------------------------

    def _work_data(self, path: Path) -> None:
        """Disarm what git's daily work writes and reads in the git folder at `path`."""
        with contextlib.suppress(OSError), opened_folder(path, forced=True) as handle:
            self._index(path, handle)
            for name in (*_WRITTEN_TO, "objects/pack", MODULES):
                self._links(path, handle, name)
            for name in _HOLD_FOLDERS:
                self._links(path, handle, name, deep=False)
            if is_worktree_folder(path):
                with contextlib.suppress(OSError):
                    self._worktree(path, handle)
            with contextlib.suppress(OSError):
                self._resolutions(path, handle)
            for name in ("rebase-merge", "sequencer", "rebase-apply"):
                with (
                    contextlib.suppress(OSError),
                    opened_below(handle, name, forced=True) as folder,
                ):
                    if name == "rebase-merge":
                        self._todo(path, folder)
                        self._strategy(path / name, folder, "strategy", str)
                    elif name == "sequencer":
                        self._strategy(path / name, folder, "opts", _strategy_of)
                    else:
                        self._options(path / name, folder)

    def _index(self, path: Path, handle: int) -> None:
        """Take out of the index what git would not put into one, but obeys where it stands."""
        looked_at = time.time_ns()
        with os.scandir(handle) as entries:
            names = [entry.name for entry in entries]
        found = [
            os.stat(name, dir_fd=handle, follow_symlinks=False)
            for name in names
            if name == "index" or name.startswith("sharedindex.")
        ]
        if not any(map(self._is_new, found)):
            return
        data = _read_index_file(handle, "index")
        is_closed = data is None and "index" in os.listdir(handle)
        if is_closed or (data is not None and len(data) == LARGEST):
            self.removals.take(path, handle, "index")
            return
        id_bytes = object_id_bytes(main_folder(path)) or 20
        index = read_index(partial(_read_index_file, handle), id_bytes)
        bad = [] if index is None else refused(index.entries)
        if data is not None and index is not None and (bad or index.is_damaged):
            taken = first_names(
                [display_path(os.fsdecode(entry.path)) for entry in bad], _MOST_NAMED
            )
            done = f"took out {taken}" if bad else "took out what git itself never writes there"
            sound = [entry for entry in index.entries if entry not in set(bad)]
            less = index_data(Index(sound, is_sparse=index.is_sparse), id_bytes)
            self.removals.replace(path, handle, "index", data, less, done)
            return
        for info in found:
            if info.st_ctime_ns < looked_at - SETTLED_NS:
                self.before.fresh.add(entry_version(info))

    def _links(self, path: Path, handle: int, name: str, *, deep: bool = True) -> None:
        """Remove new symlinks: git writes to the target of a linked file, and others can choose
        what it writes. In what it takes for a folder of its own, it also removes files."""
        waiting = [name]
        while waiting:
            place = waiting.pop()
            with contextlib.suppress(OSError), opened_below(handle, place, forced=True) as folder:
                with os.scandir(folder) as found:
                    entries = [e for e in found if e.is_symlink() or e.is_dir()]
                for entry in entries:
                    if entry.is_symlink():
                        if self._is_new(entry.stat(follow_symlinks=False)):
                            self.removals.take(path / place, folder, entry.name)
                    elif deep and not (name == MODULES and entry.name in DATA_FOLDERS):
                        waiting.append(f"{place}/{entry.name}")
            waiting = [place for place in waiting if len(place) < _LONGEST_PATH]

    def _worktree(self, path: Path, handle: int) -> None:
        """Remove the pointer of a worktree to a place that neither is for commands to write to nor
        confirms it: `git worktree repair` would write there."""
        info = os.stat("gitdir", dir_fd=handle, follow_symlinks=False)
        if not self._is_new(info):
            return
        place = real_place(path, named_place(content(handle, "gitdir") or b""))
        if self._is_ours(place):
            return
        back = pointed_place(read_private(place, _LONGEST_PATH) or b"")
        if back is None or real_place(place.parent, back) != path:
            self.removals.take(path, handle, "gitdir")

    def _resolutions(self, path: Path, handle: int) -> None:
        """Keep RESOLUTIONS to files of the working tree: git copies what it names into the git
        folder, where commands can read it, and writes resolutions over it."""
        name = RESOLUTIONS
        info = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if not self._is_new(info):
            return
        data = content(handle, name)
        if data is None:
            self.removals.take(path, handle, name)
            return
        records = data.split(b"\0")
        top = path.parent if path.name == GIT else None
        kept = [each for each in records if not _leads_out(each.partition(b"\t")[2], top)]
        if kept != records:
            done = "took out files that are not in the working tree"
            self.removals.replace(path, handle, name, data, b"\0".join(kept), done)

    def _todo(self, path: Path, rebase: int) -> None:
        name = _TODO.rpartition("/")[2]
        data = content(rebase, name)
        before = list(self.todos.get(str(path / _TODO), ()))
        if data is None:
            self.removals.take(path / "rebase-merge", rebase, name)
            return
        lines = data.split(b"\n")
        for number, line in enumerate(lines):
            if line in before:
                before.remove(line)
            elif _runs_program(line):
                lines[number] = b"noop"
        if (text := b"\n".join(lines)) != data:
            done = "removed the commands that `git rebase --continue` would run"
            self.removals.replace(path / "rebase-merge", rebase, name, data, text, done)

    def _strategy(self, path: Path, folder: int, name: str, strategy: Callable[[str], str]) -> None:
        """Remove a file that names an unknown merge strategy, which would be a program."""
        data = content(folder, name)
        text = (data or b"").decode(errors="surrogateescape")
        if data is None or strategy(text.strip()) not in _STRATEGIES:
            self.removals.take(path, folder, name)

    def _options(self, path: Path, patches: int) -> None:
        info = os.stat("apply-opt", dir_fd=patches, follow_symlinks=False)
        data = content(patches, "apply-opt") if self._is_new(info) else b""
        if data is None or not _OF_PATCHES.fullmatch(data.decode(errors="surrogateescape")):
            self.removals.take(path, patches, "apply-opt")


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
