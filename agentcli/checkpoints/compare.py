"""Differences between two snapshots, comparing git's own state by meaning.

In a git folder, the files alone do not tell what changed: a reference may be in either of two
files, and git rewrites the index whenever it looks at files. Such differences are told apart here,
so that a restore undoes what was done and not what git did on the side.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator
from functools import partial
from io import BytesIO
from typing import TypeGuard

from agentcli.checkpoints.git_index import meaning
from agentcli.checkpoints.object_store import ObjectStore
from agentcli.checkpoints.pack_store import is_whole
from agentcli.checkpoints.paths import LOOSE, GitPath, Role, git_path, repository_of, role_of
from agentcli.checkpoints.refs import References
from agentcli.checkpoints.trees import Difference, Entry, Trees

_ORDER = {Role.OBJECT: 0, Role.REF: 2, Role.PACKED_REFS: 2, Role.INDEX: 3}
_HEAD_ORDER = 4


class Comparison:
    """Compares snapshots; it reads them and writes none."""

    def __init__(self, trees: Trees, objects: ObjectStore) -> None:
        self.trees = trees
        self.objects = objects
        self.references = References(trees, objects)
        self._meanings: dict[bytes, bytes] = {}

    def differences(self, old: bytes, new: bytes) -> list[Difference]:
        """Return the differences by path, folders before their contents. A reference is named as if
        it had a file of its own. Left out are references that were only stored differently, and an
        index with the same meaning for every path."""
        found: list[Difference] = []
        references: dict[bytes, list[bytes]] = {}
        for difference in self.trees.compare(old, new):
            place = self.place(difference.path, old, new)
            role = place.role if place is not None else None
            if place is not None and role in (Role.REF, Role.PACKED_REFS):
                names = references.setdefault(place.folder, [])
                if _is_file(difference.old) or _is_file(difference.new):
                    names += [place.name] if role is Role.REF else []
                    continue
            if not (role is Role.INDEX and self._means_the_same(difference)):
                found.append(difference)
        for folder, names in references.items():
            found += self.references.differences(old, new, folder, names)
        return sorted(found, key=lambda difference: difference.path)

    def place(self, path: bytes, *roots: bytes) -> GitPath | None:
        """Return which git folder of these snapshots `path` is in, and where; None for other
        files."""
        if repository_of(path) is None:
            return None
        return git_path(path, partial(self._is_git_folder, roots))

    def steps(self, now: bytes, target: bytes, wanted: Collection[Difference]) -> list[Difference]:
        """Return the file changes that undo the `wanted` differences, including those of
        references. A folder comes before its contents."""
        changes = {}
        references: dict[bytes, list[Difference]] = {}
        for difference in wanted:
            place = self.place(difference.path, now, target)
            is_reference = place is not None and place.role in (Role.REF, Role.PACKED_REFS)
            if place is not None and is_reference and not _are_folders(difference):
                references.setdefault(place.folder, []).append(difference)
            else:
                changes[difference.path] = difference
        for folder, its in references.items():
            for change in self.references.layout(now, target, folder, its):
                changes.setdefault(change.path, change)
        return [changes[path] for path in sorted(changes)]

    def order(self, difference: Difference) -> int:
        """Return the rank by which a file of a repository is written. A file is written after the
        files that it refers to. HEAD comes last: without it, git does not see a repository."""
        place = git_path(difference.path)
        if place is None:
            return 1
        is_head = place.name.endswith(b"HEAD") and b"/" not in place.name
        return _HEAD_ORDER if is_head else _ORDER.get(place.role, 1)

    def damaged(self, old: bytes, new: bytes) -> Iterator[bytes]:
        """Yield loose objects damaged in `new`, out of those that changed: git never changes
        one."""
        for path, was, now in self.trees.compare(old, new):
            if role_of(path) is not Role.OBJECT or not LOOSE.search(path):
                continue
            if not (_is_file(was) and _is_file(now)):
                continue
            data = b"" if now.is_kept else self.objects.read(now.oid)
            if not is_whole(BytesIO(data), path):
                yield path

    def _means_the_same(self, difference: Difference) -> bool:
        old, new = difference.old, difference.new
        if old is None or new is None or not (stat.S_ISREG(old.mode) and stat.S_ISREG(new.mode)):
            return False
        meanings = (self._meaning(old.oid), self._meaning(new.oid))
        return meanings[0] == meanings[1]

    def _meaning(self, oid: bytes) -> bytes:
        if oid not in self._meanings:
            self._meanings[oid] = meaning(self.objects.read(oid)) or oid
        return self._meanings[oid]

    def _is_git_folder(self, roots: Collection[bytes], path: bytes) -> bool:
        return any(_is_file(self.trees.find(root, path + b"/HEAD")) for root in roots)


def _is_file(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and not entry.is_folder


def _are_folders(difference: Difference) -> bool:
    return not (_is_file(difference.old) or _is_file(difference.new))
