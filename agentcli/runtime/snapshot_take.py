"""Takes snapshots: scans the workspace and stores what changed since the last scan."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agentcli.runtime.names import size_text
from agentcli.runtime.snapshot_git import CheckpointError, has_git
from agentcli.runtime.snapshot_limits import (
    CAN_BE_MADE_AGAIN,
    LARGEST_FILE,
    REGENERABLE,
    large_folders,
)
from agentcli.runtime.snapshot_objects import EMPTY_TREE, ObjectStore
from agentcli.runtime.snapshot_repository import ObjectLinks, known_ids
from agentcli.runtime.snapshot_scan import (
    REPOSITORY,
    Facts,
    Scan,
    TooManyFiles,
    parse,
    record_of,
    scan,
)
from agentcli.runtime.snapshot_state import Known, load
from agentcli.runtime.snapshot_trees import (
    Entry,
    FolderChange,
    LeftOut,
    Trees,
    entry_mode,
    with_parents,
)

_CACHE = "scan"
_DEEPEST = 200
"""Folders in each other: trees are written by recursion."""
_ONE_BY_ONE = 100
"""More new objects than this go into a pack."""
_GROWN_FILES = 500
_GROWN_BYTES = 20_000_000
"""New files since the sizes of folders were last summed up, before they are again: a folder may
pass its limit by as much."""
_SCANS = 3
"""At most in a row, each without what the one before could not read."""
_STORED = (b"f", b"l")
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNREADABLE = "can't be read"
_TOO_DEEP = "too many folders deep"


class Taker:
    """Keeps what it knows from one snapshot to the next. Raises CheckpointError and OSError."""

    def __init__(self, workspace: Path, objects: ObjectStore) -> None:
        self._workspace = workspace
        self._objects = objects
        self._trees = Trees(objects)
        self._links = ObjectLinks(workspace, objects.folder)
        self._known: Known | None = None
        # Its folder is that of a session, whose record no restore may touch.
        ours = (_inside(workspace, store) for store in (objects.folder.parent, objects.folder))
        self._ours = set(filter(None, ours))
        self._grown_files = self._grown_bytes = 0
        self._last: tuple[bytes, set[bytes]] = (b"", set())

    def take(self, touched: Iterable[Path] = ()) -> tuple[bytes, tuple[str, ...]]:
        """The tree, and what it newly leaves out."""
        if self._known is None:
            self._objects.create()
            self._known = load(self._cache, self._workspace) or Known()
        known = self._known
        known.touched |= frozenset(filter(None, map(self._relative, touched)))
        try:
            self._known = self._updated(known)
        except TooManyFiles:
            raise
        except CheckpointError:
            if known.tree is None:
                raise
            # Something of the snapshot to build on is gone: one from scratch needs nothing.
            scratch = Known(touched=known.touched, reported=known.reported)
            self._known = self._updated(scratch)
        assert self._known.tree is not None
        return self._known.tree, self._newly_left_out(self._known)

    @property
    def unreadable_folders(self) -> set[bytes]:
        """Those that the last snapshot leaves out."""
        folders = self._known.folders if self._known is not None else {}
        return {path for path, why in folders.items() if why == _UNREADABLE}

    # --- one snapshot ---------------------------------------------------------------------------

    def _updated(self, known: Known) -> Known:
        found, folders = self._scan(known)
        same = found.raw == known.raw and folders == known.folders
        records = set() if same else found.records()
        before = set() if same else self._records_of(known.raw)
        fresh = [parse(record) for record in records - before]
        new = {facts.path for facts in fresh if _is_repository(facts)}
        repositories = frozenset(filter(self._is_folder, known.repositories | new))
        kept = frozenset(_kept(known.touched, folders))
        extra, missed = self._extra(kept, repositories)
        uncertain = {r for r in known.uncertain if r in records or r in extra}
        if same:
            uncertain |= known.uncertain - known.extra
        unchanged = same and (extra, kept) == (known.extra, known.kept) and not uncertain
        if unchanged and known.tree is not None:
            return known
        fresh += [parse(record) for record in (extra - known.extra) | uncertain]
        gone = [parse(record) for record in (before - records) | (known.extra - extra)]
        if self._has_grown(fresh) and (large := self._large(found.records(), folders)):
            return self._updated(replace(known, folders=folders | large))
        files = {path: why for path, why in known.files.items() if self._exists(path)}
        after = replace(
            known,
            raw=found.raw,
            extra=extra,
            kept=kept,
            folders=folders,
            files=files | missed,
            repositories=repositories,
        )
        self._store(after, fresh, gone, found.started_ns)
        if not same:
            self._last = (found.raw, records)
        after.save(self._cache, self._workspace)
        return after

    def _records_of(self, raw: bytes) -> set[bytes]:
        last_raw, records = self._last
        return records if last_raw is raw else Scan(0, raw).records()

    def _store(self, after: Known, fresh: list[Facts], gone: list[Facts], seen_ns: int) -> None:
        """Brings `after.tree` up to date with the records that came and went."""
        ids: dict[bytes, Entry] = {}
        if after.tree is None:
            regular = {facts.path: facts for facts in fresh if facts.kind in _STORED}
            ids = self._available(known_ids(self._workspace, regular))
        many = len(fresh) - len(ids) > _ONE_BY_ONE
        entries: dict[bytes, Entry | FolderChange | None] = {f.path: None for f in gone}
        with self._objects.bulk() if many else contextlib.nullcontext():
            for facts in fresh:
                entries[facts.path] = ids.get(facts.path) or self._entry(facts, after)
            change = _nested(entries)
            after.tree = self._trees.apply(after.tree or EMPTY_TREE, change, self._left_out(after))
        after.uncertain = frozenset(
            facts.record for facts in fresh if facts.kind in _STORED and facts.is_uncertain(seen_ns)
        )

    def _entry(self, facts: Facts, after: Known) -> Entry | FolderChange | None:
        after.files.pop(facts.path, None)
        if facts.path.count(b"/") >= _DEEPEST:
            top = b"/".join(facts.path.split(b"/")[: _DEEPEST + 1])
            after.files[top] = _TOO_DEEP
            return None
        if facts.kind == b"d":
            return FolderChange(entry_mode(stat.S_IFDIR | facts.mode))
        if facts.kind not in _STORED or _is_lock(facts.path):
            return None
        try:
            if facts.kind == b"l":
                target = os.readlink(self._path(facts.path))  # noqa: PTH115 (Path tidies it up)
                return Entry(stat.S_IFLNK, self._objects.write(b"blob", target))
            return self._file(facts, after)
        except FileNotFoundError:
            return None
        except OSError:
            after.files[facts.path] = _UNREADABLE
            return None

    def _file(self, facts: Facts, after: Known) -> Entry | None:
        with open(os.open(self._path(facts.path), _OPEN_FILE), "rb") as file:
            now = os.fstat(file.fileno())
            if not stat.S_ISREG(now.st_mode):
                return None
            if now.st_size > LARGEST_FILE:
                after.files[facts.path] = size_text(now.st_size)
                return None
            data = file.read(now.st_size)
        return Entry(entry_mode(now.st_mode), self._objects.write(b"blob", data))

    # --- what is in it --------------------------------------------------------------------------

    def _scan(self, known: Known) -> tuple[Scan, dict[bytes, str]]:
        """And the folders that are left out, the unreadable ones among them."""
        folders = {path: why for path, why in known.folders.items() if self._still(path, why)}
        for _ in range(_SCANS):
            try:
                found = scan(self._workspace, folders.keys() | self._ours)
            except TooManyFiles:
                if known.tree is not None:
                    raise
                # Perhaps nearly all of them are in folders that are left out anyway.
                folders |= dict.fromkeys(self._regenerable(), CAN_BE_MADE_AGAIN)
                found = scan(self._workspace, folders.keys() | self._ours)
            if folders.keys() >= set(found.unreadable):
                break
            folders |= dict.fromkeys(found.unreadable, _UNREADABLE)
        return found, folders

    def _regenerable(self) -> Iterator[bytes]:
        top = os.fsencode(self._workspace)
        for folder, names, _ in os.walk(top):
            for name in REGENERABLE.intersection(names):
                yield (folder + b"/" + name).removeprefix(top + b"/")
            names[:] = [n for n in names if n not in REGENERABLE and n != REPOSITORY]

    def _extra(
        self, kept: Collection[bytes], repositories: Collection[bytes]
    ) -> tuple[frozenset[bytes], dict[bytes, str]]:
        """Records of what a scan doesn't see: the files among a repository's objects that change,
        and `kept` paths. And the objects that could not be linked, with their sizes."""
        records: set[bytes] = set()
        missed: dict[bytes, str] = {}
        for repository in repositories:
            changing, unlinked = self._links.update(repository)
            records.update(changing)
            for source in unlinked:
                with contextlib.suppress(OSError):
                    size = size_text(source.lstat().st_size)
                    missed[os.fsencode(source.relative_to(self._workspace))] = size
        for path in kept:
            with contextlib.suppress(OSError):
                records.add(record_of(path, os.lstat(self._path(path))))
        return frozenset(records), missed

    def _large(self, records: Iterable[bytes], folders: Collection[bytes]) -> dict[bytes, str]:
        self._grown_files = self._grown_bytes = 0
        files = (facts for record in records if (facts := parse(record)).kind == b"f")
        found = large_folders(files, self._workspace, self._objects.git)
        return {
            path: f"{count:,} files, {reason}"
            for path, (count, reason) in found.items()
            if path not in folders
        }

    def _has_grown(self, fresh: Iterable[Facts]) -> bool:
        sizes = [facts.size for facts in fresh if facts.kind == b"f"]
        self._grown_files += len(sizes)
        self._grown_bytes += sum(sizes)
        return self._grown_files > _GROWN_FILES or self._grown_bytes > _GROWN_BYTES

    def _available(self, ids: dict[bytes, Entry]) -> dict[bytes, Entry]:
        """Those of `ids` whose objects are among the linked ones."""
        if not ids or not has_git():
            return {}
        asked = b"".join(entry.oid.hex().encode() + b"\n" for entry in ids.values())
        check = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objecttype)")
        answers = self._objects.git.run(*check, data=asked).splitlines()
        there = {bytes.fromhex(line[:40].decode()) for line in answers if line.endswith(b" blob")}
        return {path: entry for path, entry in ids.items() if entry.oid in there}

    def _left_out(self, known: Known) -> LeftOut:
        return LeftOut(
            frozenset(known.folders.keys() | known.files.keys() | self._ours), known.kept
        )

    def _newly_left_out(self, known: Known) -> tuple[str, ...]:
        reasons = {**known.folders, **known.files}
        new = sorted(reasons.keys() - known.reported)
        if new:
            known.reported |= frozenset(new)
            known.save(self._cache, self._workspace)
        return tuple(f"{path.decode(errors='replace')} ({reasons[path]})" for path in new)

    # --- paths ----------------------------------------------------------------------------------

    def _still(self, path: bytes, why: str) -> bool:
        if not self._is_folder(path):
            return False
        return why != _UNREADABLE or not os.access(self._path(path), os.R_OK | os.X_OK)

    def _is_folder(self, path: bytes) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(self._path(path)).st_mode)
        except OSError:
            return False

    def _exists(self, path: bytes) -> bool:
        return os.path.lexists(self._path(path))

    def _relative(self, path: Path) -> bytes | None:
        """Within the workspace, with no symlink on the way; None for what is elsewhere."""
        whole = self._workspace / path
        real = Path(os.path.realpath(whole.parent)) / whole.name
        return _inside(self._workspace, real)

    def _path(self, path: bytes) -> bytes:
        return os.fsencode(self._workspace) + b"/" + path

    @property
    def _cache(self) -> Path:
        return self._objects.folder / _CACHE


def _kept(touched: Iterable[bytes], folders: Collection[bytes]) -> Iterator[bytes]:
    """Touched paths in folders that are left out, and the folders that lead there."""
    for path in touched:
        parents = list(with_parents(path))
        for at, parent in enumerate(parents[:-1]):
            if parent in folders:
                yield from parents[at:]
                break


def _nested(entries: dict[bytes, Entry | FolderChange | None]) -> FolderChange:
    """By folder. What is below a path that goes away or is no folder goes with it."""
    root = FolderChange()
    nodes: dict[bytes, FolderChange | None] = {b"": root}
    for path in sorted(entries, key=lambda path: (path.count(b"/"), path)):
        entry = entries[path]
        above = _node(nodes, path.rpartition(b"/")[0])
        if above is None:
            continue
        above.entries[path.rpartition(b"/")[2]] = entry
        nodes[path] = entry if isinstance(entry, FolderChange) else None
    return root


def _node(nodes: dict[bytes, FolderChange | None], folder: bytes) -> FolderChange | None:
    if folder not in nodes:
        above, _, name = folder.rpartition(b"/")
        parent = _node(nodes, above)
        nodes[folder] = None
        if parent is not None:
            nodes[folder] = parent.entries[name] = FolderChange()
    return nodes[folder]


def _is_repository(facts: Facts) -> bool:
    return facts.kind == b"d" and (b"/" + facts.path).endswith(b"/" + REPOSITORY)


def _is_lock(path: bytes) -> bool:
    """Of a git command that runs right now; to bring it back would block the next one."""
    return path.endswith(b".lock") and REPOSITORY in path.split(b"/")


def _inside(workspace: Path, path: Path) -> bytes | None:
    try:
        relative = path.relative_to(workspace)
    except ValueError:
        return None
    return os.fsencode(relative) if relative.parts and ".." not in relative.parts else None
