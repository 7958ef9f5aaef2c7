"""Differences of snapshots as people see them: paths, and git's own state in words."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentcli.checkpoints.compare import Comparison
from agentcli.checkpoints.object_store import EMPTY_TREE
from agentcli.checkpoints.paths import GitPath, Role, repository_of
from agentcli.checkpoints.places import WorkspaceFolders
from agentcli.checkpoints.trees import Difference, Entry

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
                states.setdefault(repository, _State()).add(self._in_git(difference), difference)
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

    def _in_git(self, difference: Difference) -> GitPath:
        place = self._comparison.place(difference.path, self._old, self._new)
        assert place is not None
        return place

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
