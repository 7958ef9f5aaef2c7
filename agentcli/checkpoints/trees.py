"""Folders as git trees, with every permission bit in the mode of an entry.

git reads such modes as the plain 644, 755 or 40000, and empty folders as trees without entries. So
everything about a workspace fits into its tree.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from agentcli.checkpoints.objects import EMPTY_TREE, CheckpointError, ObjectStore, object_id

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


_PACKED = b"packed-refs"
_LINE = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (refs/[^\0\n]+)")
_PEELED = re.compile(rb"\^([0-9a-f]{40}|[0-9a-f]{64})")
_MODE = stat.S_IFREG | 0o644
_FOLDER = Entry(stat.S_IFDIR | 0o755, EMPTY_TREE)


@dataclass(frozen=True)
class _Packed:
    """`lines` maps each reference to its line, plus the line of the commit that a tag leads to."""

    head: bytes
    lines: Mapping[bytes, bytes]

    def value(self, name: bytes) -> bytes | None:
        line = self.lines.get(name)
        return None if line is None else line.partition(b" ")[0]


class References:
    """Compares references of git folders, each of which is named by its path."""

    def __init__(self, trees: Trees, objects: ObjectStore) -> None:
        self._trees = trees
        self._objects = objects
        self._packed_by_id: dict[bytes, _Packed | None] = {}
        self._lines: dict[bytes, bytes] = {}

    def differences(
        self, old: bytes, new: bytes, folder: bytes, loose: Iterable[bytes]
    ) -> Iterator[Difference]:
        """Yield every reference that differs; `loose` are those whose files differ. If only one of
        the two `packed-refs` can be read, that file differs as well, or if it came or went together
        with a repository without references."""
        before, after = self._packed(old, folder), self._packed(new, folder)
        names = set(loose)
        if before != after:
            then, now = (packed.lines if packed else {} for packed in (before, after))
            names |= {n for n in then.keys() | now.keys() if then.get(n) != now.get(n)}
        for name in names:
            was, is_now = self._entry(old, folder, name), self._entry(new, folder, name)
            if self.value(was) != self.value(is_now):
                yield Difference(folder + b"/" + name, was, is_now)
        path = folder + b"/" + _PACKED
        file = Difference(path, self._trees.find(old, path), self._trees.find(new, path))
        if (before is None) != (after is None) or self._came_without_references(
            file, names, old, new
        ):
            yield file

    def _came_without_references(
        self, packed: Difference, names: Collection[bytes], old: bytes, new: bytes
    ) -> bool:
        """Whether a repository that came or went has a file for packed references, but none."""
        folder = packed.path[: -len(_PACKED) - 1]
        came_or_went = (
            self._trees.find(old, folder) is None or self._trees.find(new, folder) is None
        )
        return came_or_went and not names and (packed.old is None) != (packed.new is None)

    def value(self, entry: Entry | None) -> bytes | None:
        """Return what a reference says: an id, `ref: ` and another reference, or whatever is
        there."""
        if entry is None:
            return None
        if entry.is_link:
            return b"link: " + self._objects.read(entry.oid)
        line = self._lines.get(entry.oid)
        return (self._objects.read(entry.oid) if line is None else line).strip()

    def layout(
        self, now: bytes, target: bytes, folder: bytes, wanted: Collection[Difference]
    ) -> Iterator[Difference]:
        """Yield the file changes that bring about the `wanted` differences from `now` to
        `target`."""
        packed = self._packed(now, folder)
        names = {d.path[len(folder) + 1 :]: d for d in wanted}
        names.pop(_PACKED, None)
        if packed is not None and packed.lines:
            known, lines = packed, dict(packed.lines)
        else:
            # All packed references are gone; those that were not asked for stay gone.
            known = self._packed(target, folder) or _Packed(b"", {})
            lines = {name: line for name, line in known.lines.items() if name in names}
        for name, difference in names.items():
            value = self.value(difference.new)
            loose = self._loose(now, folder, name)
            if value is not None and value == known.value(name):
                if loose is not None:
                    yield Difference(difference.path, loose, None)
            elif difference.new is None:
                lines.pop(name, None)
                if loose is not None:
                    yield Difference(difference.path, loose, None)
            else:
                yield from self._missing_folders(now, difference.path, folder)
                yield Difference(
                    difference.path, self._trees.find(now, difference.path), difference.new
                )
                self._store(difference.new)
        # git leaves a file without references, which may be all that is left of a repository.
        is_left = not lines and self._trees.find(target, folder + b"/" + _PACKED) is None
        if packed is None or lines != packed.lines or is_left:
            yield from self._repacked(now, target, folder, _Packed(known.head, lines))

    def _repacked(
        self, now: bytes, target: bytes, folder: bytes, packed: _Packed
    ) -> Iterator[Difference]:
        path = folder + b"/" + _PACKED
        there, then = self._trees.find(now, path), self._trees.find(target, path)
        if packed.lines:
            text = packed.head + b"".join(line for _, line in sorted(packed.lines.items()))
            mode = next((e.mode for e in (then, there) if e and stat.S_ISREG(e.mode)), _MODE)
            yield Difference(path, there, Entry(mode, self._objects.write(b"blob", text)))
        elif there is not None:
            yield Difference(path, there, None)

    def _entry(self, root: bytes, folder: bytes, name: bytes) -> Entry | None:
        if (loose := self._loose(root, folder, name)) is not None:
            return loose
        packed = self._packed(root, folder)
        value = packed.value(name) if packed is not None else None
        if value is None:
            return None
        line = value + b"\n"
        oid = object_id(b"blob", line)
        self._lines[oid] = line
        return Entry(_MODE, oid)

    def _store(self, entry: Entry) -> None:
        if (line := self._lines.get(entry.oid)) is not None:
            self._objects.write(b"blob", line)

    def _loose(self, root: bytes, folder: bytes, name: bytes) -> Entry | None:
        entry = self._trees.find(root, folder + b"/" + name)
        return None if is_folder(entry) else entry

    def _missing_folders(self, now: bytes, path: bytes, folder: bytes) -> Iterator[Difference]:
        above = [p for p in with_parents(path) if p != path and p.startswith(folder + b"/")]
        for place in above:
            entry = self._trees.find(now, place)
            if not is_folder(entry):
                yield Difference(place, entry, _FOLDER)

    def _packed(self, root: bytes, folder: bytes) -> _Packed | None:
        """Return the packed references: empty if there is no such file, None if it is not valid."""
        entry = self._trees.find(root, folder + b"/" + _PACKED)
        if entry is None:
            return _Packed(b"", {})
        if not stat.S_ISREG(entry.mode):
            return None
        if entry.oid not in self._packed_by_id:
            self._packed_by_id[entry.oid] = _parse(self._objects.read(entry.oid))
        return self._packed_by_id[entry.oid]


def _parse(data: bytes) -> _Packed | None:
    head = b""
    lines: dict[bytes, bytes] = {}
    last = b""
    for line in data.splitlines(keepends=True):
        match = _LINE.fullmatch(line.rstrip(b"\n"))
        if not line.endswith(b"\n"):
            return None
        if line.startswith(b"#") and not lines:
            head += line
        elif match is not None:
            last = match[2]
            lines[last] = line
        elif last and _PEELED.fullmatch(line.rstrip(b"\n")):
            lines[last] += line
        else:
            return None
    return _Packed(head, lines)
