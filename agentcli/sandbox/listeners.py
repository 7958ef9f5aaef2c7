"""Where other programs listen: sockets that are files, and named pipes. A read-only file system
does not keep commands from talking to them, so they must be covered."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agentcli.files.access_scope import TMP, AccessScope

_UNIX_SOCKETS = Path("/proc/net/unix")
MOST_SINGLE = 200
"""Places covered one by one: each takes bwrap time in proportion to those before it."""
_PROGRAMS_KEEP = ("", ".config", ".local/share", ".local/state")
"""Folders of the home folder in which programs have folders of their own."""
_SYSTEM = tuple(
    map(Path, ("/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/sys", "/usr", "/var"))
)
_MOST_FOLDERS, _MOST_ENTRIES = 300, 5_000


def listening_places(scope: AccessScope, emptied: Iterable[Path]) -> list[Path]:
    """Sockets that are bound now, and named pipes in the usual places of the home folder; not those
    in the workspace, which its own programs make, unless it holds all of the home folder, nor in a
    /tmp of the session's own. Where there are too many to cover, the folders that hold the most of
    them. `emptied`: folders that commands find empty anyway."""
    unseen = (*emptied, *scope.mounts)
    shared = (scope.home, TMP)
    of_session = (
        path for path in scope.writable if not any(each.is_relative_to(path) for each in shared)
    )
    known = (*of_session, *scope.hidden, *unseen)
    found = [
        path
        for path in dict.fromkeys((*_sockets(unseen), *_pipes(scope)))
        if not any(map(path.is_relative_to, known)) and _is_in_reach(path)
    ]
    if len(found) <= MOST_SINGLE:
        return found
    return _grouped(found, [scope.home, *scope.writable, *scope.readable, *_SYSTEM])


def _sockets(unseen: Iterable[Path]) -> Iterator[Path]:
    try:
        lines = os.fsdecode(_UNIX_SOCKETS.read_bytes()).split("\n")[1:]
    except OSError:
        return
    prefixes = tuple(f"{path}/" for path in unseen)
    for place in dict.fromkeys(filter(None, map(_place, lines))):
        if place.startswith(prefixes):
            continue
        # What we may not look at is out of reach for commands as well.
        with suppress(OSError, RuntimeError):
            path = Path(place).resolve()
            if path.is_socket():
                yield path


def _is_in_reach(path: Path) -> bool:
    """Whether commands get there by the modes of the folders: root may look anywhere on the machine
    but not from within a sandbox, and what covers places is within it too."""
    if os.geteuid() != 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    with suppress(OSError):
        return all(_is_searchable(folder.stat(), groups) for folder in path.parents)
    return False


def _is_searchable(folder: os.stat_result, groups: set[int]) -> bool:
    if folder.st_uid == 0:
        return bool(folder.st_mode & stat.S_IXUSR)
    return bool(folder.st_mode & (stat.S_IXGRP if folder.st_gid in groups else stat.S_IXOTH))


def _place(line: str) -> str | None:
    """Of a line of the kernel's list. Names stand there as their owners chose them, newlines and
    all, so a line may be any text."""
    fields = line.split(None, 7)
    is_path = len(fields) == 8 and fields[7].startswith("/") and "\0" not in fields[7]
    return fields[7] if is_path else None


def _pipes(scope: AccessScope) -> Iterator[Path]:
    """Of programs of the user, where programs have their files: what is open somewhere can't be
    found out in reasonable time."""
    waiting = [(scope.home / name, True) for name in _PROGRAMS_KEEP]
    if TMP in scope.writable:
        waiting.insert(0, (TMP, True))
    folders = entries = 0
    while waiting and folders < _MOST_FOLDERS and entries < _MOST_ENTRIES:
        folder, holds_folders = waiting.pop(0)
        folders += 1
        with suppress(OSError), os.scandir(folder) as found:
            for entry in found:
                entries += 1
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and holds_folders and _is_of_program(entry, scope):
                    waiting.append((Path(entry.path), False))
                elif not (is_folder or entry.is_file(follow_symlinks=False)) and _is_pipe(entry):
                    yield Path(entry.path)


def _is_of_program(entry: os.DirEntry[str], scope: AccessScope) -> bool:
    return entry.name.startswith(".") or Path(entry.path).parent != scope.home


def _is_pipe(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode)


def _grouped(places: list[Path], needed: list[Path]) -> list[Path]:
    """As many as can be covered: the fullest folders as a whole, unless there is something in them
    that is `needed`."""
    by_folder: dict[Path, list[Path]] = {}
    for place in places:
        by_folder.setdefault(place.parent, []).append(place)
    covered: list[Path] = []
    left = len(places)
    for folder in sorted(by_folder, key=lambda folder: -len(by_folder[folder])):
        if left <= MOST_SINGLE or any(path.is_relative_to(folder) for path in needed):
            continue
        left -= len(by_folder.pop(folder)) - 1
        covered.append(folder)
    single = [place for group in by_folder.values() for place in group]
    return [*covered, *single][:MOST_SINGLE]
