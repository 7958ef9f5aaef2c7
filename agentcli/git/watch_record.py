"""What a session's watch over git folders knows, and its file, so that the next process can finish
the watch if this one is killed, and concurrent sessions know what was there before."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.git.baseline import Baseline
from agentcli.git.quarantine import FileRecord, Identity, identity
from agentcli.git.repositories import git_folders_below
from agentcli.workspace.folders import walk
from agentcli.workspace.private import read_regular, try_lock
from agentcli.workspace.scope import DATA_FOLDERS

_LARGEST = 50_000_000


EntryVersion = tuple[int, int, int]
"""Device, inode, and time of the last status change in ns."""


def entry_version(info: os.stat_result) -> EntryVersion:
    return info.st_dev, info.st_ino, info.st_ctime_ns


@dataclass
class Inventory:
    """`folders` are git folders. `fresh` are the entries in them that changed so shortly before
    commands began that the time alone does not tell which came first, and those that were found to
    be harmless since."""

    folders: set[tuple[Path, Identity]] = field(default_factory=set)
    fresh: set[EntryVersion] = field(default_factory=set)


def inventory(roots: Sequence[Path], since_ns: int) -> Inventory:
    """Take an inventory of the repositories in `roots`, before commands run there."""
    found = Inventory()
    for path in (path for root in roots for path in git_folders_below(root)):
        with contextlib.suppress(OSError):
            found.folders.add((path, identity(path.lstat())))
        found.fresh |= set(_fresh(path, since_ns))
    return found


def _fresh(path: Path, since_ns: int) -> Iterator[EntryVersion]:
    names = [str(path)]
    for folder, folders, files in walk(path):
        folders[:] = [name for name in folders if name not in DATA_FOLDERS]
        names += [os.path.join(folder, name) for name in (*folders, *files)]  # noqa: PTH118
    for name in names:
        with contextlib.suppress(OSError):
            info = os.lstat(name)
            if info.st_ctime_ns >= since_ns:
                yield entry_version(info)


@dataclass
class WatchRecord:
    """What one session's watch knows. `roots`, `since_ns`, `todos` and `before` are as in
    `Disarmer`."""

    roots: tuple[Path, ...]
    since_ns: int
    baselines: list[Baseline] = field(default_factory=list)
    todos: dict[str, list[bytes]] = field(default_factory=dict)
    before: Inventory = field(default_factory=Inventory)


class RecordFile:
    """The file of a record. It stays locked until it is removed or the process ends."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the file can't be written or another process uses it."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not try_lock(self._file):
                raise OSError(f"{path} is in use")
        except OSError:
            os.close(self._file)
            raise

    def write(self, record: WatchRecord) -> None:
        """Write the record. Raises OSError."""
        data = json.dumps(_as_dict(record)).encode()
        # In place, because the lock is on this very file; a partial record counts as none.
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def unfinished(folder: Path) -> Iterator[tuple[Path, WatchRecord | None, RecordFile]]:
    """Yield the records in `folder` whose processes were killed, each locked for us. The record is
    None if it can't be read."""
    for path in _files(folder):
        with contextlib.suppress(OSError):
            file = RecordFile(path)
            yield path, _read(path), file


def in_use(folder: Path, except_path: Path) -> Iterator[WatchRecord]:
    """Yield the records of other processes that still run; `except_path` is our own file."""
    for path in _files(folder):
        if path != except_path and (record := _read(path)) is not None:
            yield record


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> WatchRecord | None:
    try:
        return _from_dict(json.loads(read_regular(path, _LARGEST)[0]))
    except (OSError, ValueError, TypeError, KeyError, binascii.Error):
        return None


def _as_dict(record: WatchRecord) -> dict[str, Any]:
    return {
        "roots": list(map(str, record.roots)),
        "since_ns": record.since_ns,
        "seals": [_baseline_as_dict(baseline) for baseline in record.baselines],
        "todos": {path: list(map(_text, lines)) for path, lines in record.todos.items()},
        "folders": [[str(path), *id_] for path, id_ in record.before.folders],
        "fresh": [list(each) for each in record.before.fresh],
    }


def _from_dict(found: dict[str, Any]) -> WatchRecord:
    return WatchRecord(
        roots=tuple(map(Path, found["roots"])),
        since_ns=int(found["since_ns"]),
        baselines=[_baseline_from_dict(each) for each in found["seals"]],
        todos={path: list(map(_bytes, lines)) for path, lines in found["todos"].items()},
        before=Inventory(
            {(Path(path), (int(device), int(inode))) for path, device, inode in found["folders"]},
            {(int(device), int(inode), int(ns)) for device, inode, ns in found["fresh"]},
        ),
    )


def _baseline_as_dict(baseline: Baseline) -> dict[str, Any]:
    return {
        "path": str(baseline.path),
        "names": sorted(baseline.names) if baseline.names is not None else None,
        "young": baseline.made_by_commands,
        "closed": sorted(baseline.mounted),
        "known": {place: _record_as_list(record) for place, record in baseline.records.items()},
    }


def _baseline_from_dict(found: dict[str, Any]) -> Baseline:
    names: Sequence[str] | None = found["names"]
    baseline = Baseline(
        Path(found["path"]),
        names=None if names is None else frozenset(names),
        # What was closed to commands can only have been changed by somebody else.
        mounted=dict.fromkeys(found["closed"]),
        made_by_commands=bool(found["young"]),
    )
    baseline.records = {place: _record_from_list(each) for place, each in found["known"].items()}
    return baseline


def _record_as_list(record: FileRecord) -> list[Any]:
    *facts, data, _ = record
    return [*facts, None if data is None else _text(data)]


def _record_from_list(found: list[Any]) -> FileRecord:
    mode, id_, stamp, owner, data = found
    data = None if data is None else _bytes(data)
    return FileRecord(int(mode), tuple(id_), tuple(stamp), tuple(owner), data)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
