"""The references of a repository in a snapshot, by what they point to, however they are stored.

A reference is a file of its own, a line of `packed-refs`, or both, and then the file counts. git
moves references from one form to the other by itself, which changes nothing.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentcli.checkpoints.object_store import EMPTY_TREE, ObjectStore, object_id
from agentcli.checkpoints.trees import Difference, Entry, Trees, is_folder, with_parents

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
