"""Sources of a session from elsewhere: a folder, a tar or zip archive of one, an exported file.

Nothing here is trusted: only plain files are opened, no member of an archive is unpacked under its
own name, and only bytes actually read are counted.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Protocol

from agentcli.errors import SessionError
from agentcli.events.texts import json_object
from agentcli.workspace.private import NotRegular, open_regular

EVENT_BYTES = 32 * 1024 * 1024
OUTPUT_BYTES = 50 * 1024 * 1024
TOTAL_BYTES = 1024 * 1024 * 1024
AT_ONCE_BYTES = 256 * 1024 * 1024
"""Limit for what must be in memory as a whole: one JSON document, or an archive, whose members may
be in any order."""
MOST_EVENTS = 1_000_000
EVENT_NAME = re.compile(r"([0-9]{9})\.json", re.ASCII)
OUTPUT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,120}", re.ASCII)
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
_NOT_EXPORTED = "it is no exported session"


class Source(Protocol):
    """Provides the JSON text of events 0, 1, 2 … and the files of `outputs/`.

    All methods raise SessionError when the contents are not those of a session.
    """

    def events(self) -> Iterator[bytes | dict[str, Any]]: ...
    def outputs(self) -> Iterator[tuple[str, bytes]]: ...


class SessionFolder:
    """A folder as `agent` writes it; anything else in it is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def events(self) -> Iterator[bytes]:
        with _opened_folder(self._path / "events") as (folder, names):
            matches = map(EVENT_NAME.fullmatch, names)
            for event_id in in_order([int(match[1]) for match in matches if match]):
                yield _read_in(folder, f"{event_id:09d}.json", EVENT_BYTES)

    def outputs(self) -> Iterator[tuple[str, bytes]]:
        # Outputs that can't be read are left out, even if that is all of them.
        with suppress(SessionError), _opened_folder(self._path / "outputs") as (folder, names):
            for name in sorted(filter(OUTPUT_NAME.fullmatch, names)):
                with suppress(SessionError):
                    yield name, _read_in(folder, name, OUTPUT_BYTES)


class ExportedFile:
    """A file that `agent sessions export` wrote as json or jsonl."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def events(self) -> Iterator[bytes | dict[str, Any]]:
        with opened(self._path) as file:
            first = file.readline(EVENT_BYTES + 1)
            if header := json_object(first):
                if "format_version" not in header:
                    raise SessionError(_NOT_EXPORTED)
                if "events" not in header:
                    yield from self._lines(file)
                    return
            rest = file.read(AT_ONCE_BYTES + 1 - len(first))
        if len(first) + len(rest) > AT_ONCE_BYTES:
            raise SessionError(
                f"it is larger than {AT_ONCE_BYTES // 2**20} MB", hint="export it as jsonl"
            )
        document = json_object(first + rest)
        events = document.get("events") if document and "format_version" in document else None
        if not isinstance(events, list):
            raise SessionError(_NOT_EXPORTED)
        yield from events

    def outputs(self) -> Iterator[tuple[str, bytes]]:
        yield from ()

    def _lines(self, file: IO[bytes]) -> Iterator[bytes]:
        while line := file.readline(EVENT_BYTES + 1):
            if len(line) > EVENT_BYTES:
                raise SessionError("an event in it is too large")
            if line.strip():
                yield line


def in_order(ids: list[int]) -> range:
    """Return `ids` as the range 0, 1, 2 … Raises SessionError when one is missing or there are too
    many."""
    if len(ids) > MOST_EVENTS:
        raise SessionError(f"it has more than {MOST_EVENTS:,} events")
    present = set(ids)
    for event_id in range(len(ids)):
        if event_id not in present:
            raise SessionError(f"event {event_id} is missing")
    return range(len(ids))


@contextmanager
def _opened_folder(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield a descriptor of the folder and the names of its entries."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise SessionError(f"{path} is not part of a session: {error.strerror}") from error
    try:
        yield folder, os.listdir(folder)  # noqa: PTH208 - of a descriptor
    finally:
        os.close(folder)


def _read_in(folder: int, name: str, limit: int) -> bytes:
    """Read a plain file directly in `folder`. Raises SessionError."""
    try:
        with open_regular(name, folder=folder) as file:
            return read_limited(file, limit, name)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.EISDIR):
            raise SessionError(f"{name} is not a plain file") from error
        raise SessionError(f"{name} can't be read: {error.strerror}") from error


def opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path, follow=True)
    except (NotRegular, IsADirectoryError) as error:
        raise SessionError("it is neither a folder nor a plain file") from error


def read_limited(file: IO[bytes], limit: int, name: str) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise SessionError(f"{name} is larger than {limit // 2**20} MB")
    return data


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
