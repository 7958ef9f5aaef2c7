"""Differences between two snapshots, comparing git's own state by meaning.

In a git folder, the files alone do not tell what changed: a reference may be in either of two
files, and git rewrites the index whenever it looks at files. Such differences are told apart here,
so that a restore undoes what was done and not what git did on the side.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Literal, TypeGuard

from agentcli.checkpoints.objects import EMPTY_TREE, ObjectStore
from agentcli.checkpoints.pack_store import is_whole
from agentcli.checkpoints.paths import (
    LOOSE,
    GitPath,
    Role,
    WorkspaceFolders,
    git_path,
    repository_of,
    role_of,
)
from agentcli.checkpoints.read_files import meaning
from agentcli.checkpoints.trees import Difference, Entry, References, Trees

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
            if (
                place is not None
                and is_reference
                and (_is_file(difference.old) or _is_file(difference.new))
            ):
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
        return self._meaning(old.oid) == self._meaning(new.oid)

    def _meaning(self, oid: bytes) -> bytes:
        if oid not in self._meanings:
            self._meanings[oid] = meaning(self.objects.read(oid)) or oid
        return self._meanings[oid]

    def _is_git_folder(self, roots: Collection[bytes], path: bytes) -> bool:
        return any(_is_file(self.trees.find(root, path + b"/HEAD")) for root in roots)


def _is_file(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and not entry.is_folder


Kind = Literal["added", "modified", "deleted", "mode"]
_ID = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_ID = 7
_KINDS_OF_REFERENCE = {
    b"refs/heads/": "branch",
    b"refs/tags/": "tag",
    b"refs/remotes/": "remote branch",
}
_STASH = b"refs/stash"
_SILENT = (Role.TRACE, Role.REFLOG, Role.OBJECT)


@dataclass(frozen=True)
class Change:
    """`path` is relative to the workspace; bytes that are not UTF-8 are surrogates in it.
    `git_description` describes a change of git's own state; it is empty for other files."""

    path: str
    kind: Kind
    git_description: str = ""


class Report:
    """Describes differences between the snapshots `old` and `new`."""

    def __init__(
        self,
        place: WorkspaceFolders,
        comparison: Comparison,
        old: bytes,
        new: bytes,
    ) -> None:
        self._place = place
        self._comparison = comparison
        self._trees = comparison.trees
        self._old = old
        self._new = new

    def changes(self, differences: Sequence[Difference]) -> Iterator[Change]:
        """Yield changes of plain files, then, per repository, what changed in git's own files."""
        states: dict[bytes, _State] = {}
        for difference in differences:
            repository = repository_of(difference.path)
            if repository is None or self._is_whole(repository):
                yield from self._plain(difference, repository)
            else:
                place = self._comparison.place(difference.path, self._old, self._new)
                assert place is not None
                states.setdefault(repository, _State()).add(place, difference)
        for repository, state in states.items():
            yield from self._told(repository, state)

    def _is_whole(self, repository: bytes) -> bool:
        """Whether the `.git` came or went as a whole, or is a file that points elsewhere."""
        sides = [self._trees.find(root, repository) for root in (self._old, self._new)]
        return not all(entry is not None and entry.is_folder for entry in sides)

    def _plain(self, difference: Difference, repository: bytes | None) -> Iterator[Change]:
        kind = kind_of(difference)
        if kind is not None and repository in (None, difference.path):
            yield Change(self._place.shown(difference.path), kind)
        elif repository == difference.path:
            yield Change(self._place.shown(repository), "deleted" if difference.old else "added")

    def _told(self, repository: bytes, state: _State) -> Iterator[Change]:
        for name, (place, difference) in sorted(state.named.items()):
            kind: Kind = "deleted" if difference.new is None else "modified"
            if difference.old is None:
                kind = "added"
            what = self._in_words(place, difference)
            yield Change(self._place.shown(name), kind, f"git{_where(place.folder)}: {what}")
        lost, brought = state.lost, state.brought
        path = self._place.shown(repository + b"/objects")
        if lost:
            yield Change(path, "deleted", f"git: {_files(lost)} of objects gone or damaged")
        if brought and not lost and not state.named:
            yield Change(path, "added", f"git: {_files(brought)} of objects there again")
        if state.reflogs and not state.named and not lost:
            yield Change(self._place.shown(repository + b"/logs"), "modified", "git: reflogs")

    def _in_words(self, place: GitPath, difference: Difference) -> str:
        old, new = (self._value(entry) for entry in (difference.old, difference.new))
        if place.name == b"HEAD":
            return f"HEAD {_head(new)} (was {_head(old)})"
        if place.name in (_STASH, b"logs/" + _STASH):
            counts = [self._stashed(root, place.folder) for root in (self._old, self._new)]
            return f"stash of {_entries(counts[1])} (was {_entries(counts[0])})"
        if place.role is Role.REF:
            prefix = next((p for p in _KINDS_OF_REFERENCE if place.name.startswith(p)), b"")
            kind = _KINDS_OF_REFERENCE.get(prefix, "reference")
            name = os.fsdecode(place.name.removeprefix(prefix))
            return f"{kind} {name} {_at(new)} (was {_at(old)})"
        if place.role is Role.INDEX:
            return "index" if difference.new else "index gone"
        return os.fsdecode(place.name.partition(b"/")[0])

    def _value(self, entry: Entry | None) -> bytes:
        if entry is None or not (stat.S_ISREG(entry.mode) or entry.is_link):
            return b""
        return self._comparison.references.value(entry) or b""

    def _stashed(self, root: bytes, folder: bytes) -> int:
        """Return how many entries `git stash list` has."""
        log = self._trees.find(root, folder + b"/logs/" + _STASH)
        if log is None or not stat.S_ISREG(log.mode):
            return 0
        return self._comparison.objects.read(log.oid).count(b"\n")


@dataclass
class _State:
    """What differs in one repository; `named` by the path that it is reported under."""

    named: dict[bytes, tuple[GitPath, Difference]] = field(default_factory=dict)
    lost: int = 0
    brought: int = 0
    reflogs: int = 0

    def add(self, place: GitPath, difference: Difference) -> None:
        entry = difference.new or difference.old
        if entry is None or entry.is_folder:
            return
        if place.role is Role.OBJECT:
            self.lost += difference.old is not None
            self.brought += difference.old is None
        self.reflogs += place.role is Role.REFLOG
        if place.role not in _SILENT:
            self.named.setdefault(_told_under(place), (place, difference))


def _told_under(place: GitPath) -> bytes:
    """Return one path for files that belong together: a stash and its log, a rebase's notes."""
    if place.name.endswith(_STASH):
        return place.folder + b"/" + _STASH
    name = place.name if place.role is Role.REF else place.name.partition(b"/")[0]
    return place.folder + b"/" + name


def kind_of(difference: Difference) -> Kind | None:
    """Return the kind of a change; None for a folder whose contents are reported instead."""
    _, old, new = difference
    if old is None or new is None:
        entry = old or new
        told_below = entry is not None and entry.is_folder and entry.oid != EMPTY_TREE
        return None if told_below else "added" if old is None else "deleted"
    same_type = stat.S_IFMT(old.mode) == stat.S_IFMT(new.mode)
    return "mode" if same_type and (old.is_folder or old.oid == new.oid) else "modified"


def _where(folder: bytes) -> str:
    """Name the repository, unless it is that of the workspace."""
    path = os.fsdecode(folder).removeprefix(".").removeprefix("/")
    for words, kind in (("/modules/", "submodule"), ("/worktrees/", "worktree")):
        if words in f"/{path}":
            return f" of {kind} {f'/{path}'.rpartition(words)[2]}"
    above = path.removesuffix("git").rstrip("/.")
    return f" in {above}" if above else ""


def _head(value: bytes) -> str:
    if value.startswith(b"ref: refs/heads/"):
        return f"on {os.fsdecode(value.removeprefix(b'ref: refs/heads/'))}"
    return _at(value)


def _at(value: bytes) -> str:
    if not value:
        return "not there"
    if value.startswith(b"ref: "):
        return f"for {os.fsdecode(value.removeprefix(b'ref: '))}"
    return f"at {value[:_SHORT_ID].decode()}" if _ID.fullmatch(value) else "damaged"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
