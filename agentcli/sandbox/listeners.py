"""Finds where other programs listen: sockets in the file system, and named pipes. A read-only file
system does not keep commands from talking to them, so they must be covered."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agentcli.workspace.access_scope import TMP, AccessScope

_UNIX_SOCKETS = Path("/proc/net/unix")
MOST_SINGLE = 200
"""How many places are covered individually. The time bwrap needs for each grows with the number of
places before it."""
_PROGRAMS_KEEP = ("", ".config", ".local/share", ".local/state")
"""Folders in the home folder where programs keep folders of their own."""
_SYSTEM = tuple(
    map(Path, ("/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/sys", "/usr", "/var"))
)
_MOST_FOLDERS, _MOST_ENTRIES = 300, 5_000


def listening_places(scope: AccessScope, emptied: Iterable[Path]) -> list[Path]:
    """Return the sockets bound now, and named pipes in the usual places of the home folder.

    Those in the workspace are left out, because its own programs make them, unless it contains the
    whole home folder. So are those in a /tmp of the session's own. If there are too many to cover,
    the fullest folders are returned instead. `emptied` are folders that commands find empty anyway.
    """
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
        # What we may not inspect is out of reach for commands as well.
        with suppress(OSError, RuntimeError):
            path = Path(place).resolve()
            if path.is_socket():
                yield path


def _is_in_reach(path: Path) -> bool:
    """Return whether the modes of the folders let commands get there. Outside, root may look
    anywhere, but not from within a sandbox, where bwrap covers the places."""
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
    """Return the path in a line of the kernel's list. The kernel writes names as their owners chose
    them, even with newlines, so a line may be any text."""
    fields = line.split(None, 7)
    is_path = len(fields) == 8 and fields[7].startswith("/") and "\0" not in fields[7]
    return fields[7] if is_path else None


def _pipes(scope: AccessScope) -> Iterator[Path]:
    """Yield named pipes of the user's programs, in places where programs keep their files. Finding
    all that are open somewhere would take too long."""
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
    """Reduce `places` to as many as can be covered: the fullest folders as a whole, unless they
    contain something that is `needed`."""
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
