"""The stat facts of the files in which repositories keep their objects."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from agentcli.checkpoints.places import WorkspaceFolders
from agentcli.checkpoints.scan import record_of

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
        for name, is_folder in sorted(self._entries(path)) if not _is_fan(path) else ():
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


def _is_fan(path: bytes) -> bool:
    return _FAN.fullmatch(path.rpartition(b"/")[2]) is not None
