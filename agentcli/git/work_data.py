"""Disarms what git's daily work writes and reads in a git folder: the index, the state of merges
and rebases, and links by which git would write elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentcli.git.config_files import parse
from agentcli.git.index import LARGEST, Index, index_data, read_index
from agentcli.git.path_rules import is_refused, refused
from agentcli.git.quarantine import SETTLED_NS, content
from agentcli.git.removals import Removals
from agentcli.git.repositories import is_worktree_folder, main_folder, object_id_bytes
from agentcli.workspace.git_layout import (
    DATA_FOLDERS,
    GIT,
    MODULES,
    WORKTREES,
    named_place,
    pointed_place,
    real_place,
)
from agentcli.workspace.names import display_path, first_names
from agentcli.workspace.opening import opened_below, opened_folder
from agentcli.workspace.private import read_private, read_regular

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

IsNew = Callable[[os.stat_result], bool]


@dataclass(frozen=True)
class WorkData:
    """`is_new` tells whether something was made or changed since commands began, and `know` that
    it need not be looked at again; `todos` are as in `Disarmer`."""

    removals: Removals
    is_new: IsNew
    is_ours: Callable[[Path], bool]
    know: Callable[[os.stat_result], None]
    todos: dict[str, list[bytes]]

    def disarm(self, path: Path) -> None:
        """Disarm the git folder at `path`."""
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
            with (
                contextlib.suppress(OSError),
                opened_below(handle, "rebase-merge", forced=True) as rebase,
            ):
                self._todo(path, rebase)
                self._strategy(path / "rebase-merge", rebase, "strategy", lambda text: text)
            with (
                contextlib.suppress(OSError),
                opened_below(handle, "sequencer", forced=True) as sequencer,
            ):
                self._strategy(path / "sequencer", sequencer, "opts", _strategy_of)
            with (
                contextlib.suppress(OSError),
                opened_below(handle, "rebase-apply", forced=True) as patches,
            ):
                self._options(path / "rebase-apply", patches)

    # --- the index ------------------------------------------------------------------------------

    def _index(self, path: Path, handle: int) -> None:
        """Take out of the index what git would not put into one, but obeys where it stands."""
        looked_at = time.time_ns()
        found = list(_indexes(handle))
        if not any(map(self.is_new, found)):
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
            names = first_names(
                [display_path(os.fsdecode(entry.path)) for entry in bad], _MOST_NAMED
            )
            done = f"took out {names}" if bad else "took out what git itself never writes there"
            sound = [entry for entry in index.entries if entry not in set(bad)]
            less = index_data(Index(sound, is_sparse=index.is_sparse), id_bytes)
            self.removals.replace(path, handle, "index", data, less, done)
            return
        for info in found:
            if info.st_ctime_ns < looked_at - SETTLED_NS:
                self.know(info)

    # --- links ----------------------------------------------------------------------------------

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
                        if self.is_new(entry.stat(follow_symlinks=False)):
                            self.removals.take(path / place, folder, entry.name)
                    elif deep and not (name == MODULES and entry.name in DATA_FOLDERS):
                        waiting.append(f"{place}/{entry.name}")
            waiting = [place for place in waiting if len(place) < _LONGEST_PATH]

    def _worktree(self, path: Path, handle: int) -> None:
        """Remove the pointer of a worktree to a place that neither is for commands to write to nor
        confirms it: `git worktree repair` would write there."""
        info = os.stat("gitdir", dir_fd=handle, follow_symlinks=False)
        if not self.is_new(info):
            return
        place = real_place(path, named_place(content(handle, "gitdir") or b""))
        if self.is_ours(place):
            return
        back = pointed_place(read_private(place, _LONGEST_PATH) or b"")
        if back is None or real_place(place.parent, back) != path:
            self.removals.take(path, handle, "gitdir")

    # --- merges and rebases ---------------------------------------------------------------------

    def _resolutions(self, path: Path, handle: int) -> None:
        """Keep RESOLUTIONS to files of the working tree: git copies what it names into the git
        folder, where commands can read it, and writes resolutions over it."""
        name = RESOLUTIONS
        info = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if not self.is_new(info):
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
        data = content(patches, "apply-opt") if self.is_new(info) else b""
        if data is None or not _OF_PATCHES.fullmatch(data.decode(errors="surrogateescape")):
            self.removals.take(path, patches, "apply-opt")


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


def _indexes(handle: int) -> Iterator[os.stat_result]:
    """Yield what is known of the index and of the files that it may share entries with."""
    with os.scandir(handle) as entries:
        for entry in entries:
            if entry.name == "index" or entry.name.startswith("sharedindex."):
                yield os.stat(entry.name, dir_fd=handle, follow_symlinks=False)


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
