"""Reading a session folder from a tar or zip archive. No member is unpacked under its own name."""

from __future__ import annotations

import gzip
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from agentcli.errors import SessionError
from agentcli.sessions.transfer.import_sources import (
    AT_ONCE_BYTES,
    EVENT_BYTES,
    EVENT_NAME,
    GZIP_MAGIC,
    MOST_EVENTS,
    OUTPUT_BYTES,
    OUTPUT_NAME,
    ZIP_MAGIC,
    in_order,
    read_limited,
)

_DAMAGE = (
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_archive(path: Path, start: bytes) -> Archive:
    """Read the session in the archive at `path`, whose first bytes are `start`. Raises SessionError
    when it is damaged, holds no session, or has a member whose path leads out of it."""
    archive = Archive()
    try:
        if start.startswith(ZIP_MAGIC):
            _read_zip(path, archive)
        else:
            _read_tar(path, archive, compressed=start.startswith(GZIP_MAGIC))
    except _DAMAGE as error:
        raise SessionError(f"the archive is damaged: {error}") from error
    return archive


class Archive:
    """The members of an archive that belong to one session."""

    def __init__(self) -> None:
        self._root: PurePosixPath | None = None
        self._events: dict[int, bytes] = {}
        self._outputs: dict[str, bytes] = {}
        self._size = 0

    def events(self) -> Iterator[bytes]:
        for event_id in in_order(list(self._events)):
            yield self._events[event_id]

    def outputs(self) -> Iterator[tuple[str, bytes]]:
        yield from sorted(self._outputs.items())

    def wants(self, name: str, *, plain: bool) -> bool:
        """Whether the member `name` is part of a session. Raises SessionError when it is one but
        not a `plain` file, or when its name leads out of the archive."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise SessionError(f"the path {name!r} leads out of the archive")
        event = path.parent.name == "events" and EVENT_NAME.fullmatch(path.name)
        output = path.parent.name == "outputs" and OUTPUT_NAME.fullmatch(path.name)
        if not event and not (output and plain):
            return False
        if not plain:
            raise SessionError(f"{name!r} in the archive is not a plain file")
        root = path.parent.parent
        if self._root is None:
            self._root = root
        elif root != self._root:
            raise SessionError("there is more than one session in the archive")
        return True

    def take(self, name: str, file: IO[bytes]) -> None:
        path = PurePosixPath(name)
        is_event = path.parent.name == "events"
        data = read_limited(file, EVENT_BYTES if is_event else OUTPUT_BYTES, name)
        self._size += len(data)
        if self._size > AT_ONCE_BYTES or len(self._events) + len(self._outputs) > MOST_EVENTS:
            raise SessionError(f"the archive holds more than {AT_ONCE_BYTES // 2**20} MB")
        if is_event:
            event_id = int(path.stem)
            if event_id in self._events:
                raise SessionError(f"event {event_id} is in the archive twice")
            self._events[event_id] = data
        else:
            self._outputs[path.name] = data


def _read_zip(path: Path, collected: Archive) -> None:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            plain = kind in (0, stat.S_IFREG) and info.compress_type in _ZIP_METHODS
            if not info.is_dir() and collected.wants(info.filename, plain=plain):
                with archive.open(info) as file:
                    collected.take(info.filename, file)


def _read_tar(path: Path, collected: Archive, *, compressed: bool) -> None:
    with tempfile.TemporaryFile() as plain_tar, path.open("rb") as raw:
        _copy_limited(gzip.GzipFile(fileobj=raw) if compressed else raw, plain_tar)
        plain_tar.seek(0)
        with tarfile.open(fileobj=plain_tar, mode="r:") as archive:
            for info in archive:
                plain = info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()
                if info.isdir() or not collected.wants(info.name, plain=plain):
                    continue
                file = archive.extractfile(info)
                if file is not None:
                    collected.take(info.name, file)


def _copy_limited(source: IO[bytes] | gzip.GzipFile, target: IO[bytes]) -> None:
    """Copy, counting the actual bytes: the sizes in tar headers and compressed data may be lies."""
    left = AT_ONCE_BYTES
    while chunk := source.read(1 << 20):
        left -= len(chunk)
        if left < 0:
            raise SessionError(f"the archive holds more than {AT_ONCE_BYTES // 2**20} MB")
        target.write(chunk)
