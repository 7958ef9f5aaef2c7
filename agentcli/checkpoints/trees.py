"""Folders as git trees, with every permission bit in the mode of an entry.

git reads such modes as the plain 644, 755 or 40000, and empty folders as trees without entries. So
everything about a workspace fits into its tree.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from agentcli.checkpoints.object_store import EMPTY_TREE, ObjectStore
from agentcli.checkpoints.store_git import CheckpointError

LEFT_OUT = b"%left-out"
"""The root tree's entry that lists what the snapshot lacks. Escaping keeps other names off it."""
OUTSIDE = b"%outside"
"""The root tree's entry for the path `.`: a git folder outside of the workspace."""
_OURS = (LEFT_OUT[1:], OUTSIDE[1:])
KEPT = 0o160000
"""The type of an entry whose id names a file in the pack store. git takes it for a submodule's
commit, which it never looks for."""
_PERMISSIONS = 0o777
_REMEMBERED = 512
"""Most folders cached: those on the way to a file are read again and again."""


class Entry(NamedTuple):
    """`mode` is as in stat, without setuid, setgid and sticky bits."""

    mode: int
    oid: bytes

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_kept(self) -> bool:
        return stat.S_IFMT(self.mode) == KEPT


def is_folder(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and entry.is_folder


class Difference(NamedTuple):
    path: bytes
    old: Entry | None
    new: Entry | None


@dataclass(slots=True)
class FolderChange:
    """Changes to a folder's entries; None removes one."""

    mode: int | None = None
    entries: dict[bytes, Entry | FolderChange | None] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """Paths that a snapshot lacks though they may exist, with everything below them, except the
    `kept` paths, which it has if they exist."""

    paths: frozenset[bytes] = frozenset()
    kept: frozenset[bytes] = frozenset()

    def covers(self, path: bytes) -> bool:
        if path in self.kept:
            return False
        return any(above in self.paths for above in with_parents(path))

    def encode(self) -> bytes:
        lines = [b"-" + path for path in self.paths] + [b"+" + path for path in self.kept]
        return b"\0".join(sorted(lines))

    @staticmethod
    def decode(data: bytes) -> LeftOut:
        lines = data.split(b"\0")
        return LeftOut(
            frozenset(line[1:] for line in lines if line.startswith(b"-")),
            frozenset(line[1:] for line in lines if line.startswith(b"+")),
        )


def entry_mode(mode: int) -> int:
    return stat.S_IFMT(mode) | (0 if stat.S_ISLNK(mode) else mode & _PERMISSIONS)


def with_parents(path: bytes) -> Iterator[bytes]:
    """Yield `a`, `a/b`, `a/b/c` for `a/b/c`."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)
    yield path


class Trees:
    """Reads and writes the trees of a store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._remembered: dict[bytes, Mapping[bytes, Entry]] = {}

    def folder(self, oid: bytes) -> Mapping[bytes, Entry]:
        """Return the entries of one tree by their escaped names."""
        if oid not in self._remembered:
            if len(self._remembered) == _REMEMBERED:
                self._remembered.clear()
            self._remembered[oid] = self._read(oid)
        return self._remembered[oid]

    def _read(self, oid: bytes) -> Mapping[bytes, Entry]:
        if oid == EMPTY_TREE:
            return {}
        data = self._objects.read(oid)
        entries = {}
        at = 0
        try:
            while at < len(data):
                space = data.index(b" ", at)
                end = data.index(b"\0", space)
                entry = Entry(int(data[at:space], 8), data[end + 1 : end + 21])
                entries[data[space + 1 : end]] = entry
                at = end + 21
        except ValueError as error:
            raise CheckpointError(f"{oid.hex()} is not a folder of a checkpoint") from error
        return entries

    def apply(self, old: bytes, change: FolderChange, left_out: LeftOut | None = None) -> bytes:
        """Return the tree that `old` becomes, with `left_out` stored in it as a root if that is
        given. Only the folders in `change` are read and written."""
        entries = dict(self.folder(old))
        for name, new in change.entries.items():
            key = _escape(name)
            if new is None:
                entries.pop(key, None)
            elif isinstance(new, Entry):
                entries[key] = new
            else:
                was = entries.get(key)
                below = was if is_folder(was) else Entry(0o40755, EMPTY_TREE)
                mode = below.mode if new.mode is None else new.mode
                entries[key] = Entry(mode, self.apply(below.oid, new))
        if left_out is not None:
            entries.pop(LEFT_OUT, None)
            if left_out.paths:
                oid = self._objects.write(b"blob", left_out.encode())
                entries[LEFT_OUT] = Entry(0o100600, oid)
        return self._write(entries)

    def find(self, root: bytes, path: bytes) -> Entry | None:
        entry: Entry | None = Entry(0o40755, root)
        for name in path.split(b"/"):
            if not is_folder(entry):
                return None
            entry = self.folder(entry.oid).get(_escape(name))
        return entry

    def left_out(self, root: bytes) -> LeftOut:
        entry = self.folder(root).get(LEFT_OUT)
        return LeftOut() if entry is None else LeftOut.decode(self._objects.read(entry.oid))

    def compare(self, old: bytes, new: bytes, above: bytes = b"") -> Iterator[Difference]:
        """Yield every path that differs, folders before their contents. A folder on both sides is
        named only if its mode differs."""
        if old == new:
            return
        before, after = self.folder(old), self.folder(new)
        for key in sorted(before.keys() | after.keys()):
            was, now = before.get(key), after.get(key)
            if was == now or key == LEFT_OUT:
                continue
            path = above + _unescape(key)
            if not (is_folder(was) and is_folder(now)) or was.mode != now.mode:
                yield Difference(path, was, now)
            yield from self.compare(_oid_of_folder(was), _oid_of_folder(now), path + b"/")

    def reachable(self, roots: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
        """Return the ids of these trees and of all that is in them, and the names of kept files."""
        found: set[bytes] = set()
        kept: set[bytes] = set()
        waiting = list(roots)
        while waiting:
            oid = waiting.pop()
            if oid in found:
                continue
            found.add(oid)
            for entry in self.folder(oid).values():
                if entry.is_folder:
                    waiting.append(entry.oid)
                elif entry.is_kept:
                    kept.add(entry.oid)
                else:
                    found.add(entry.oid)
        return found, kept

    def _write(self, entries: dict[bytes, Entry]) -> bytes:
        ordered = sorted(entries.items(), key=_place)
        parts = (b"%o %s\0%s" % (entry.mode, name, entry.oid) for name, entry in ordered)
        return self._objects.write(b"tree", b"".join(parts))


def _place(item: tuple[bytes, Entry]) -> bytes:
    """Return the sort key: git sorts folders as if their names ended with a slash."""
    return item[0] + b"/" if item[1].is_folder else item[0]


def _oid_of_folder(entry: Entry | None) -> bytes:
    return entry.oid if is_folder(entry) else EMPTY_TREE


def _escape(name: bytes) -> bytes:
    """Escape names like `.git`, which would be a repository to any git that reads the tree."""
    if name == b".":
        return OUTSIDE
    return b"%" + name if _is_reserved(name) else name


def _unescape(name: bytes) -> bytes:
    if name == OUTSIDE:
        return b"."
    return name[1:] if name.startswith(b"%") and _is_reserved(name) else name


def _is_reserved(name: bytes) -> bool:
    if not name.startswith((b".", b"%")):
        return False
    bare = name.lstrip(b"%").lower()
    return bare == b".git" or (bare in _OURS and name.startswith(b"%"))
