"""Reads the files that a scan found into the store, each once, and returns their tree entries."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from agentcli.checkpoints.objects import ObjectStore
from agentcli.checkpoints.pack_store import PackStore, is_whole
from agentcli.checkpoints.paths import WorkspaceFolders, is_object, is_pack, repository_of
from agentcli.checkpoints.scan import REPOSITORY, UNCERTAIN_NS, FileFacts, record_of, time_text
from agentcli.checkpoints.trees import KEPT, Entry, FolderChange, entry_mode
from agentcli.git.index import HEADER_BYTES, IndexEntry, entries, entry_at
from agentcli.workspace.folders import RootedFolder
from agentcli.workspace.names import size_text
from agentcli.workspace.scope import LARGEST_COVERED

UNREADABLE = "can't be read"
STORED = (b"f", b"l")
_DEEPEST = 200
"""The most nested folders: trees are written by recursion."""
_TOO_DEEP = "too many folders deep"


class Reader:
    """Reads files of the workspace; a context manager. Commands may run meanwhile: a link that they
    put in the place of a folder is never followed."""

    def __init__(self, place: WorkspaceFolders, objects: ObjectStore, packs: PackStore) -> None:
        self._place = place
        self._objects = objects
        self._packs = packs
        self._tops: dict[Path, RootedFolder] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for top in self._tops.values():
            top.close()

    def entry(self, facts: FileFacts, skipped: dict[bytes, str]) -> Entry | FolderChange | None:
        """Return the tree entry of a path; None if it is not stored, `skipped` then says why."""
        skipped.pop(facts.path, None)
        if facts.path.count(b"/") >= _DEEPEST:
            top = b"/".join(facts.path.split(b"/")[: _DEEPEST + 1])
            skipped[top] = _TOO_DEEP
            return None
        if facts.kind == b"d":
            return FolderChange(entry_mode(stat.S_IFDIR | facts.mode))
        if facts.kind not in STORED:
            return None
        try:
            return self._link(facts) if facts.kind == b"l" else self._file(facts, skipped)
        except FileNotFoundError:
            return None
        except OSError:
            skipped[facts.path] = UNREADABLE
            return None

    def _link(self, facts: FileFacts) -> Entry:
        beneath, inner = self._beneath(facts.path)
        folder, name = beneath.place(inner)
        target = os.readlink(name, dir_fd=folder)
        return Entry(stat.S_IFLNK, self._objects.write(b"blob", target))

    def is_damaged(self, path: bytes) -> bool:
        """Whether a pack exists and no longer has its original content."""
        with contextlib.suppress(OSError), self._opened(path) as file:
            return not is_whole(file, path)
        return False

    def _file(self, facts: FileFacts, skipped: dict[bytes, str]) -> Entry | None:
        with self._opened(facts.path) as file:
            now = os.fstat(file.fileno())
            if not stat.S_ISREG(now.st_mode):
                return None
            in_git = repository_of(facts.path) is not None
            is_large = now.st_size > LARGEST_COVERED
            if in_git and (is_pack(facts.path) or (is_large and is_object(facts.path))):
                if (name := self._packs.keep(file, facts.path)) is not None:
                    return Entry(KEPT | now.st_mode & 0o777, name)
                is_large = True
            if is_large:
                skipped[facts.path] = size_text(now.st_size)
                return None
            data = file.read(now.st_size)
        dense = in_git and is_object(facts.path)
        return Entry(entry_mode(now.st_mode), self._objects.write(b"blob", data, dense=dense))

    def _opened(self, path: bytes) -> BinaryIO:
        beneath, inner = self._beneath(path)
        return open(beneath.open(inner, os.O_RDONLY | os.O_NONBLOCK), "rb")

    def _beneath(self, path: bytes) -> tuple[RootedFolder, bytes]:
        top, inner = self._place.top(path)
        if top not in self._tops:
            self._tops[top] = RootedFolder(top)
        return self._tops[top], inner


_FAN = re.compile(rb"[0-9a-f]{2}")
_UNFINISHED = b"tmp_"
"""Name prefix of objects that git has not finished writing."""
_SETTLED_NS = 2_000_000_000
"""A folder changed this recently may change again within the same tick of a coarse clock."""


class ObjectFiles:
    """Remembers the object files of each folder. There may be tens of thousands, so folders that
    have not changed are not read again: objects never change, as far as only git writes them."""

    FEW = 10_000
    """This many can be checked again in a tenth of a second; git packs them at 6,700."""

    def __init__(self, place: WorkspaceFolders) -> None:
        self._place = place
        self._listings: dict[bytes, _Listing] = {}

    @property
    def are_few(self) -> bool:
        return sum(listing.files for listing in self._listings.values()) <= self.FEW

    def records(self, repository: bytes, *, thorough: bool) -> Iterator[bytes]:
        """Yield the records of everything in the objects folder of this git folder. `thorough` also
        finds objects that a program other than git may have changed."""
        folder = repository + b"/objects"
        for name, is_folder in sorted(self._entries(folder)):
            if is_folder and not name.startswith(_UNFINISHED):
                path = folder + b"/" + name
                yield from self._folder(path, thorough or not _FAN.fullmatch(name))
        try:
            yield record_of(folder, os.lstat(self._place.absolute(folder)))
        except OSError:
            return

    def _folder(self, path: bytes, thorough: bool) -> Iterator[bytes]:
        try:
            facts = os.lstat(self._place.absolute(path))
        except OSError:
            return
        version = _version(facts)
        known = self._listings.get(path)
        is_current = known is not None and known.is_settled and known.version == version
        if known is None or thorough or not is_current:
            files = dict(self._files(path))
            # Writing the records is the slow part.
            if known is None or not is_current or known.digest != _digest(files):
                known = self._listings[path] = _listing(path, facts, files)
        yield known.records
        for name, is_folder in (
            sorted(self._entries(path)) if not _FAN.fullmatch(path.rpartition(b"/")[2]) else ()
        ):
            if is_folder:
                yield from self._folder(path + b"/" + name, thorough)

    def _files(self, folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        with contextlib.suppress(OSError), os.scandir(self._place.absolute(folder)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) or entry.name.startswith(_UNFINISHED):
                    continue
                with contextlib.suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False)

    def _entries(self, folder: bytes) -> list[tuple[bytes, bool]]:
        """Return the names of the entries, and whether they are folders."""
        top = self._place.absolute(folder)
        try:
            if not stat.S_ISDIR(os.lstat(top).st_mode):
                return []
            with os.scandir(top) as entries:
                return [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
        except OSError:
            return []


class _Listing(NamedTuple):
    version: tuple[int, int, int]
    is_settled: bool
    files: int
    digest: int
    records: bytes


def _listing(path: bytes, facts: os.stat_result, files: dict[bytes, os.stat_result]) -> _Listing:
    settled = time.time_ns() - _SETTLED_NS > facts.st_ctime_ns
    records = [record_of(path + b"/" + name, file) for name, file in sorted(files.items())]
    found = b"\0".join([record_of(path, facts), *records])
    return _Listing(_version(facts), settled, len(files), _digest(files), found)


def _version(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def _digest(files: dict[bytes, os.stat_result]) -> int:
    """Return a hash of everything the records say about these files, valid in this process only."""
    facts = (
        (name, f.st_mode, f.st_size, f.st_mtime_ns, f.st_ctime_ns, f.st_ino)
        for name, f in files.items()
    )
    return hash(frozenset(facts))


_VERSIONS = (2, 3, 4)
_NOT_PLAIN = 0x8000 | 0x4000 | 0x3000
"""Flags of an entry: assumed unchanged, extended, in conflict."""
_MEANT = 0x8000 | 0x3000
_MEANT_EXTENDED = 0x6000
"""Flags set by people or merges: assumed unchanged, stage; not checked out, intent to add."""
_CONVERTS = re.compile(rb"autocrlf|\beol\b|attributesfile|include|worktreeconfig", re.I)
_LARGEST_INDEX = 100_000_000


def meaning(data: bytes) -> bytes | None:
    """Return a digest of what an index says about each path: mode, content, stage and the flags
    that people set. The stat data, which git refreshes whenever it looks at files, is left out.
    None when that can't be told, as for an index whose entries are partly in another file."""
    try:
        digest = hashlib.sha256()
        for item in _entries(data):
            flags = (item.flags & _MEANT, item.extended & _MEANT_EXTENDED)
            digest.update(
                b"%o %s %d %d %s\0" % (item.mode, item.oid.hex().encode(), *flags, item.path)
            )
        return digest.digest()
    except (struct.error, ValueError, IndexError):
        return None


def known_ids(workspace: Path, files: Mapping[bytes, FileFacts]) -> dict[bytes, Entry]:
    """Return entries for those of `files` that, by the index of the workspace's repository, still
    have the content it recorded; empty if git may have converted contents. Only a hint that the
    objects exist.
    """
    repository = workspace / os.fsdecode(REPOSITORY)
    if _may_convert(repository, files):
        return {}
    index = repository / "index"
    try:
        facts = index.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_INDEX:
            return {}
        return dict(_matching(index.read_bytes(), files, facts.st_mtime_ns))
    except (OSError, struct.error, ValueError, IndexError):
        return {}


def _entries(data: bytes) -> Iterator[IndexEntry]:
    """Yield the entries. Raises ValueError or struct.error if it is not an index, or not all of
    one."""
    size = _oid_size(data)
    if int.from_bytes(data[4:8], "big") not in _VERSIONS:
        raise ValueError("no index")
    at = HEADER_BYTES
    for start, at, path in entries(data, size):  # noqa: B007 - the end of the last is used
        yield entry_at(data, start, size, path)
    # An extension with a lower-case name changes what the entries mean.
    while at < len(data) - size:
        if data[at] >= ord("a"):
            raise ValueError("not the whole index")
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")


def _oid_size(data: bytes) -> int:
    """Return the length of object ids, which shows in the digest that an index ends with."""
    for algorithm in ("sha1", "sha256"):
        digest = hashlib.new(algorithm, usedforsecurity=False)
        digest.update(memoryview(data)[: -digest.digest_size])
        if data.endswith(digest.digest()):
            return digest.digest_size
    raise ValueError("damaged")


def _may_convert(repository: Path, files: Mapping[bytes, FileFacts]) -> bool:
    if any(path.endswith(b".gitattributes") for path in files):
        return True
    home = Path(os.environ.get("HOME") or "/nonexistent")
    xdg = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    attributes = (
        repository / "info" / "attributes",
        xdg / "attributes",
        Path("/etc/gitattributes"),
    )
    if any(os.path.lexists(path) for path in attributes):
        return True
    if any(name in os.environ for name in ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS")):
        return True
    configs = (repository / "config", home / ".gitconfig", xdg / "config", Path("/etc/gitconfig"))
    named = (os.environ.get("GIT_CONFIG_GLOBAL"), os.environ.get("GIT_CONFIG_SYSTEM"))
    return any(map(_converts, (*configs, *(Path(name) for name in named if name))))


def _converts(config: Path) -> bool:
    try:
        if not os.path.lexists(config) or not config.is_file():
            return False
        return _CONVERTS.search(config.read_bytes()) is not None
    except OSError:
        return True


def _matching(
    data: bytes, files: Mapping[bytes, FileFacts], written_ns: int
) -> Iterator[tuple[bytes, Entry]]:
    found = []
    for item in _entries(data):
        if item.path.endswith(b".gitattributes") or len(item.oid) != 20:
            return
        now = files.get(item.path)
        if now is not None and not item.flags & _NOT_PLAIN and _is_same(item, now, written_ns):
            kind = stat.S_IFLNK if now.kind == b"l" else stat.S_IFREG
            found.append((item.path, Entry(entry_mode(kind | now.mode), item.oid)))
    yield from found


def _is_same(item: IndexEntry, now: FileFacts, written_ns: int) -> bool:
    changed_s, changed_ns, modified_s, modified_ns, _, inode, mode, _, _, size = item.facts
    kind = {b"f": stat.S_IFREG, b"l": stat.S_IFLNK}.get(now.kind)
    changed = changed_s * 1_000_000_000 + changed_ns
    modified = modified_s * 1_000_000_000 + modified_ns
    return (
        kind == stat.S_IFMT(mode)
        and time_text(changed) == now.changed
        and time_text(modified) == now.modified
        and changed_ns != 0
        and inode == now.inode & 0xFFFFFFFF
        and size == now.size
        # A file modified in the instant the index was written may have changed unnoticed.
        and modified + UNCERTAIN_NS < written_ns
    )
