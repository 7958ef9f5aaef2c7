"""Takes snapshots: scans the workspace and stores what has changed since the last scan."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from agentcli.checkpoints.objects import EMPTY_TREE, CheckpointError, ObjectStore, has_git
from agentcli.checkpoints.pack_store import PackStore
from agentcli.checkpoints.paths import (
    COMMON,
    WorkspaceFolders,
    find_place,
    inside,
    is_common,
    is_pack,
    load_place,
    redirected_outputs,
    save_place,
)
from agentcli.checkpoints.read_files import STORED, UNREADABLE, ObjectFiles, Reader, known_ids
from agentcli.checkpoints.scan import (
    CAN_BE_MADE_AGAIN,
    REGENERABLE,
    REPOSITORY,
    FileFacts,
    Scan,
    TooManyFiles,
    large_folders,
    parse,
    record_of,
    scan,
)
from agentcli.checkpoints.trees import Entry, FolderChange, LeftOut, Trees, with_parents
from agentcli.workspace.folders import walk
from agentcli.workspace.private import replace_atomically

_HEADER = b"agent workspace scan 2"
_REASONS = ("folders", "files")
_PATHS = ("extra", "kept", "uncertain", "reported", "touched", "repositories", "suspects")


@dataclass
class LastSnapshot:
    """`raw` is the last scan, `objects` the records of repositories' object files, `extra` the
    records of other paths that scans don't see, and `tree` the snapshot of all. `folders` and
    `files` are left out, each with the reason, except the `kept` paths in them; `reported` paths
    have been reported as left out. `suspects` are packs touched since they were kept, whose content
    may have changed."""

    raw: bytes = b""
    objects: bytes = b""
    tree: bytes | None = None
    folders: dict[bytes, str] = field(default_factory=dict)
    files: dict[bytes, str] = field(default_factory=dict)
    extra: frozenset[bytes] = frozenset()
    kept: frozenset[bytes] = frozenset()
    uncertain: frozenset[bytes] = frozenset()
    reported: frozenset[bytes] = frozenset()
    touched: frozenset[bytes] = frozenset()
    repositories: frozenset[bytes] = frozenset()
    suspects: frozenset[bytes] = frozenset()

    def save(self, path: Path, root: Path) -> None:
        facts: dict[str, Any] = {"root": str(root), "tree": (self.tree or b"").hex()}
        facts["scanned"] = len(self.raw)
        for name in _REASONS:
            facts[name] = {os.fsdecode(path): why for path, why in getattr(self, name).items()}
        for name in _PATHS:
            facts[name] = sorted(map(os.fsdecode, getattr(self, name)))
        text = json.dumps(facts).encode()
        checksum = b"%08x" % zlib.crc32(self.objects, zlib.crc32(self.raw, zlib.crc32(text)))
        head = (_HEADER, b" ", checksum, b"\n", text, b"\n")
        replace_atomically(path, *head, self.raw, self.objects)


def load(path: Path, root: Path) -> LastSnapshot | None:
    """Load the cache; None if it can't be relied on."""
    try:
        head, text, records = path.read_bytes().split(b"\n", 2)
    except (OSError, ValueError):
        return None
    if head != b"%s %08x" % (_HEADER, zlib.crc32(records, zlib.crc32(text))):
        return None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts: dict[str, Any] = json.loads(text)
        if facts["root"] == str(root):
            values: dict[str, Any] = {
                name: frozenset(map(os.fsencode, facts[name])) for name in _PATHS
            }
            for name in _REASONS:
                values[name] = {os.fsencode(path): why for path, why in facts[name].items()}
            raw, objects = records[: facts["scanned"]], records[facts["scanned"] :]
            return LastSnapshot(raw, objects, bytes.fromhex(facts["tree"]) or None, **values)
    return None


_CACHE = "scan"
_ONE_BY_ONE = 100
"""With more changed files and folders than this, their objects go into one pack."""
_GROWN_FILES = 500
_GROWN_BYTES = 20_000_000
"""Number and bytes of new files after which the sizes of folders are summed up again: a folder may
exceed its limit by as much."""
_SCANS = 3
"""Most scans in a row, each leaving out what the one before could not read."""


class SnapshotTaker:
    """Takes snapshots, each based on the one before. Raises CheckpointError and OSError."""

    def __init__(self, workspace: Path, objects: ObjectStore, packs: PackStore) -> None:
        workspace = Path(os.path.realpath(workspace))
        self._objects = objects
        self._packs = packs
        self._trees = Trees(objects)
        self._known: LastSnapshot | None = None
        self._grown_files = self._grown_bytes = 0
        self._last: list[tuple[bytes, set[bytes]]] = []
        self._use_place(load_place(objects.folder, workspace) or find_place(workspace))

    def take(
        self, touched: Iterable[Path] = (), *, thorough: bool = False
    ) -> tuple[bytes, tuple[str, ...]]:
        """Take a snapshot; return its tree and what it newly leaves out. `thorough` also covers
        objects of repositories that a program other than git may have changed."""
        if self._known is None:
            self._objects.create()
            self._known = load(self._cache, self.place.root) or LastSnapshot()
        known = self._known
        known.touched |= frozenset(filter(None, map(self.place.within, touched)))
        try:
            self._known = self._updated(known, thorough)
        except TooManyFiles:
            if known.tree is not None or self.place.root == self.place.workspace:
                raise
            self._use_place(self.place.alone())
            self._known = None
            return self.take(touched, thorough=thorough)
        except CheckpointError:
            if known.tree is None:
                raise
            # Part of the previous snapshot is gone: start over, which needs nothing from it.
            scratch = LastSnapshot(touched=known.touched, reported=known.reported)
            self._known = self._updated(scratch, thorough)
        assert self._known.tree is not None
        return self._known.tree, self._newly_left_out(self._known)

    @property
    def unreadable_folders(self) -> set[bytes]:
        """The unreadable folders that the last snapshot leaves out."""
        folders = self._known.folders if self._known is not None else {}
        return {path for path, why in folders.items() if why == UNREADABLE}

    def overwritten(self) -> set[bytes]:
        """Return packs that, by their checksums, are not what the last snapshot took them for."""
        if self._known is None:
            return set()
        with Reader(self.place, self._objects, self._packs) as reader:
            found = {path for path in self._known.suspects if reader.is_damaged(path)}
        self._known.suspects = frozenset(found)
        return found

    def _use_place(self, place: WorkspaceFolders) -> None:
        self.place = place
        self.object_files = ObjectFiles(place)
        # The store lies in a session's folder, and no restore may touch that record.
        ours = (self._objects.folder.parent, self._objects.folder, *redirected_outputs())
        self._ours = set(filter(None, (inside(place.root, path) for path in ours)))

    # --- one snapshot ---------------------------------------------------------------------------

    def _updated(self, known: LastSnapshot, thorough: bool) -> LastSnapshot:
        found, folders = self._scan(known)
        raw = _reuse_if_equal(_without(found.raw, self._ours), known.raw)
        fresh_files, gone_files = self._changed(raw, known.raw)
        repositories = self._repositories(known, fresh_files)
        listed = (self.object_files.records(place, thorough=thorough) for place in repositories)
        objects = _reuse_if_equal(b"\0".join(chain.from_iterable(listed)), known.objects)
        fresh_objects, gone_objects = self._changed(objects, known.objects)
        kept = frozenset(_kept(known.touched, folders))
        extra = self._extra(kept)
        gone = gone_files | gone_objects | (known.extra - extra)
        uncertain = known.uncertain - gone
        fresh_files |= (extra - known.extra) | uncertain
        same = not (fresh_files or fresh_objects or gone) and folders == known.folders
        if same and kept == known.kept and known.tree is not None:
            return known
        # Objects first, as packs show which files need not be read.
        fresh = [*_sorted(fresh_objects), *_sorted(fresh_files)]
        if self._has_grown(fresh) and (large := self._large(self._records(raw), folders)):
            return self._updated(replace(known, folders=folders | large), thorough)
        after = replace(
            known,
            raw=raw,
            objects=objects,
            extra=extra,
            kept=kept,
            folders=folders,
            files={
                path: why
                for path, why in known.files.items()
                if os.path.lexists(self.place.absolute(path))
            },
            repositories=frozenset(repositories),
        )
        self._store(after, fresh, [parse(record) for record in gone], found.started_ns)
        self._last = [entry for entry in self._last if entry[0] is raw or entry[0] is objects]
        if known.tree is None:
            save_place(self._objects.folder, self.place)
        after.save(self._cache, self.place.root)
        return after

    def _changed(self, now: bytes, before: bytes) -> tuple[set[bytes], set[bytes]]:
        """Return the records that are new, and those that are gone."""
        if now is before:
            return set(), set()
        records, known = self._records(now), self._records(before)
        return records - known, known - records

    def _records(self, raw: bytes) -> set[bytes]:
        known = next((records for last, records in self._last if last is raw), None)
        if known is None:
            known = set(raw.split(b"\0"))
            known.discard(b"")
            self._last.append((raw, known))
        return known

    def _repositories(self, known: LastSnapshot, fresh: Collection[bytes]) -> list[bytes]:
        """Return the git folders whose objects are not scanned but listed by `ObjectFiles`."""
        new = {parse(record).path for record in fresh if _is_git_folder(record)}
        outside = {COMMON} if self.place.common else set()
        return sorted(filter(self._is_folder, known.repositories | new | outside))

    def _store(
        self, after: LastSnapshot, fresh: list[FileFacts], gone: list[FileFacts], seen_ns: int
    ) -> None:
        """Update `after.tree` with the records that are new and gone."""
        entries: dict[bytes, Entry | FolderChange | None] = {f.path: None for f in gone}
        before = after.tree
        with Reader(self.place, self._objects, self._packs) as reader:
            packs = {f.path: reader.entry(f, after.files) for f in fresh if is_pack(f.path)}
            entries |= packs
            ids: dict[bytes, Entry] = {}
            if before is None:
                regular = {facts.path: facts for facts in fresh if facts.kind in STORED}
                ids = self._available(known_ids(self.place.root, regular))
            many = len(fresh) > _ONE_BY_ONE
            with self._objects.bulk() if many else contextlib.nullcontext():
                for facts in fresh:
                    if facts.path not in packs:
                        entries[facts.path] = ids.get(facts.path) or reader.entry(
                            facts, after.files
                        )
                paths = frozenset(after.folders.keys() | after.files.keys() | self._ours)
                left_out = LeftOut(paths, after.kept)
                after.tree = self._trees.apply(before or EMPTY_TREE, _nested(entries), left_out)
        after.suspects = (after.suspects - packs.keys()) | self._touched(packs, before)
        after.uncertain = frozenset(
            facts.record for facts in fresh if facts.kind in STORED and facts.is_uncertain(seen_ns)
        )

    def _touched(
        self, packs: Mapping[bytes, Entry | FolderChange | None], before: bytes | None
    ) -> set[bytes]:
        """Return packs that look as they did when they were kept but have been touched since: by
        git, which does that to protect them from removal, or by something that wrote to them."""
        return {
            path
            for path, entry in packs.items()
            if isinstance(entry, Entry)
            and before is not None
            and (known := self._trees.find(before, path)) is not None
            and known.oid == entry.oid
        }

    # --- what is in it --------------------------------------------------------------------------

    def _scan(self, known: LastSnapshot) -> tuple[Scan, dict[bytes, str]]:
        """Scan; also return the folders that are left out, including unreadable ones."""
        folders = {
            path: why for path, why in known.folders.items() if self._is_still_left_out(path, why)
        }
        for _ in range(_SCANS):
            try:
                found = self._scan_all(folders.keys() | self._ours)
            except TooManyFiles:
                if known.tree is not None:
                    raise
                # Perhaps nearly all of them are in folders that are left out anyway.
                folders |= dict.fromkeys(self._regenerable(), CAN_BE_MADE_AGAIN)
                found = self._scan_all(folders.keys() | self._ours)
            if folders.keys() >= set(found.unreadable):
                break
            folders |= dict.fromkeys(found.unreadable, UNREADABLE)
        return found, folders

    def _scan_all(self, pruned: Collection[bytes]) -> Scan:
        found = scan(self.place.root, pruned)
        if self.place.common is None:
            return found
        more = scan(self.place.common, {*pruned, COMMON + b"/objects"}, COMMON)
        unreadable = found.unreadable + more.unreadable
        return Scan(found.started_ns, found.raw + more.raw, unreadable)

    def _regenerable(self) -> Iterator[bytes]:
        for folder, names, _ in walk(self.place.root):
            can_be_made_again = {name for name in names if os.fsencode(name) in REGENERABLE}
            for name in can_be_made_again:
                yield os.fsencode((folder / name).relative_to(self.place.root))
            left_out = {*can_be_made_again, os.fsdecode(REPOSITORY)}
            names[:] = [name for name in names if name not in left_out]

    def _extra(self, kept: Collection[bytes]) -> frozenset[bytes]:
        """Return the records of `kept` paths, which a scan doesn't see."""
        records: set[bytes] = set()
        for path in kept:
            with contextlib.suppress(OSError):
                records.add(record_of(path, os.lstat(self.place.absolute(path))))
        return frozenset(records)

    def _large(self, records: Iterable[bytes], folders: Collection[bytes]) -> dict[bytes, str]:
        self._grown_files = self._grown_bytes = 0
        found_facts = (parse(record) for record in records)
        files = (f for f in found_facts if f.kind == b"f" and not is_common(f.path))
        found = large_folders(files, self.place.root, self._objects.git)
        return {
            path: f"{count:,} files, {reason}"
            for path, (count, reason) in found.items()
            if path not in folders
        }

    def _has_grown(self, fresh: Iterable[FileFacts]) -> bool:
        sizes = [facts.size for facts in fresh if facts.kind == b"f"]
        self._grown_files += len(sizes)
        self._grown_bytes += sum(sizes)
        return self._grown_files > _GROWN_FILES or self._grown_bytes > _GROWN_BYTES

    def _available(self, ids: dict[bytes, Entry]) -> dict[bytes, Entry]:
        """Return those of `ids` whose objects are in packs that the store keeps."""
        if not ids or not has_git():
            return {}
        asked = b"".join(entry.oid.hex().encode() + b"\n" for entry in ids.values())
        check = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objecttype)")
        answers = self._objects.git.run(*check, data=asked, sees_more=True).splitlines()
        there = {bytes.fromhex(line[:40].decode()) for line in answers if line.endswith(b" blob")}
        return {path: entry for path, entry in ids.items() if entry.oid in there}

    def _newly_left_out(self, known: LastSnapshot) -> tuple[str, ...]:
        reasons = {**known.folders, **known.files}
        new = sorted(reasons.keys() - known.reported)
        if new:
            known.reported |= frozenset(new)
            known.save(self._cache, self.place.root)
        return tuple(f"{self.place.shown(path)} ({reasons[path]})" for path in new)

    # --- paths ----------------------------------------------------------------------------------

    def _is_still_left_out(self, path: bytes, why: str) -> bool:
        if not self._is_folder(path):
            return False
        return why != UNREADABLE or not os.access(self.place.absolute(path), os.R_OK | os.X_OK)

    def _is_folder(self, path: bytes) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(self.place.absolute(path)).st_mode)
        except OSError:
            return False

    @property
    def _cache(self) -> Path:
        return self._objects.folder / _CACHE


def _kept(touched: Iterable[bytes], folders: Collection[bytes]) -> Iterator[bytes]:
    """Yield touched paths in left-out folders, and the folders that lead to them."""
    for path in touched:
        parents = list(with_parents(path))
        for at, parent in enumerate(parents[:-1]):
            if parent in folders:
                yield from parents[at:]
                break


def _nested(entries: dict[bytes, Entry | FolderChange | None]) -> FolderChange:
    """Group changes by folder. A path that is removed or is not a folder drops all below it."""
    root = FolderChange()
    for path in sorted(entries, key=lambda path: path.count(b"/")):
        folder: Entry | FolderChange | None = root
        *above, name = path.split(b"/")
        for part in above:
            if not isinstance(folder, FolderChange):
                break
            folder = folder.entries.setdefault(part, FolderChange())
        if isinstance(folder, FolderChange):
            folder.entries[name] = entries[path]
    return root


def _without(raw: bytes, paths: Iterable[bytes]) -> bytes:
    """Remove the records of the files at `paths`, if there are any, from those of a scan."""
    for path in paths:
        at = raw.find(b" ./%s\0" % path)
        start, end = raw.rfind(b"\0", 0, at) + 1, raw.find(b"\0", at)
        if at >= 0 and parse(raw[start:end]).path == path:
            raw = raw[:start] + raw[end + 1 :]
    return raw


def _reuse_if_equal(now: bytes, before: bytes) -> bytes:
    """Return `before` if both are equal, since the parsed records are found by object identity."""
    return before if now == before else now


def _sorted(records: Iterable[bytes]) -> list[FileFacts]:
    """Sort by path, so that files of one folder are read together."""
    return sorted(map(parse, records), key=attrgetter("path"))


def _is_git_folder(record: bytes) -> bool:
    return record.startswith(b"d ") and record.endswith(b"/" + REPOSITORY)
