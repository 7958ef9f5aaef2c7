"""Runs git on a checkpoint store, immune to settings of the user or of a repository."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import resource
import struct
import subprocess
import zlib
from collections.abc import Iterator
from io import BufferedRandom
from pathlib import Path
from typing import IO

from agentcli.errors import SessionError
from agentcli.git import safe
from agentcli.system.programs import find_program
from agentcli.workspace.private import replace_atomically


class CheckpointError(SessionError):
    """A snapshot that can't be taken, read or restored."""


_MOST_MEMORY = 1 << 30
"""Bytes of memory for git to unpack an object, which may be crafted to exhaust all there is."""


class Git:
    """git on the bare repository `store`, which can also see the objects in the folder `more`.
    Raises CheckpointError if git is not installed."""

    def __init__(self, store: Path, more: Path) -> None:
        self._store = store
        self._more = more
        self._batch: subprocess.Popen[bytes] | None = None

    def run(
        self,
        *arguments: str,
        data: bytes = b"",
        work_tree: Path | None = None,
        ok: int = 0,
        sees_more: bool = False,
    ) -> bytes:
        """Run git and return its output. An exit code above `ok` raises CheckpointError."""
        done = subprocess.run(
            _command(*arguments),
            input=data,
            capture_output=True,
            env=self._environment(work_tree, sees_more=sees_more),
            cwd=work_tree or self._store,
            start_new_session=True,
        )
        if not 0 <= done.returncode <= ok:
            complaint = os.fsdecode(done.stderr).strip() or f"exit code {done.returncode}"
            raise CheckpointError(f"git {arguments[0]} failed on {self._store}: {complaint}")
        return done.stdout

    def read(self, oid: bytes, largest: int) -> tuple[bytes, bytes] | None:
        """Return kind and content of an object from wherever git finds it, not checked against its
        id; None when it is missing or has more than `largest` bytes."""
        asked, answers = self._pipes()
        try:
            asked.write(oid.hex().encode() + b"\n")
            asked.flush()
        except BrokenPipeError:
            return None
        header = answers.readline().split()
        if len(header) != 3:
            return None
        size = int(header[2])
        if size > largest:
            self.close()
            return None
        data = answers.read(size + 1)[:size]
        return (header[1], data) if len(data) == size else None

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._batch is None:
            self._batch = subprocess.Popen(
                _command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment(None, sees_more=True),
                cwd=self._store,
                start_new_session=True,
            )
            if hasattr(resource, "prlimit"):
                resource.prlimit(self._batch.pid, resource.RLIMIT_DATA, (_MOST_MEMORY,) * 2)
        assert self._batch.stdin is not None
        assert self._batch.stdout is not None
        return self._batch.stdin, self._batch.stdout

    def close(self) -> None:
        if self._batch is not None:
            self._batch.kill()
            self._batch.communicate()
            self._batch = None

    def _environment(self, work_tree: Path | None, *, sees_more: bool) -> dict[str, str]:
        environment = {**safe.ENVIRONMENT, "GIT_DIR": str(self._store)}
        if sees_more:
            # Quoted, because a colon in the path would split it.
            quoted = str(self._more).replace("\\", "\\\\").replace('"', '\\"')
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        return environment


def has_git() -> bool:
    return find_program("git") is not None


def _command(*arguments: str) -> list[str]:
    binary = find_program("git")
    if binary is None:
        raise CheckpointError("there is no git on PATH", hint="install git, then try again")
    return safe.command(binary, *arguments)


EMPTY_TREE = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
_FAST = 1
"""zlib's quickest level, because a step waits for it."""
_PACK_KINDS = {b"tree": 2, b"blob": 3}
_KINDS = {number: kind for kind, number in _PACK_KINDS.items()}
_LARGEST_PACK = 1 << 30
"""Below 2 GiB, above which offsets in an index need a second table."""
_LARGEST_OBJECT = 1 << 30
"""Bytes. No file or folder of a snapshot comes near it."""
_LOOKUP = "lookup"
_OID = 20
_HEADER = b"PACK" + struct.pack(">I", 2)
_INDEX_HEADER = b"\xfftOc" + struct.pack(">I", 2)
_FANOUT = 256 * 4


class ObjectStore:
    """The objects of one store. Whatever `write` returned is stored completely, at once or when the
    `bulk` block around it ends. Raises CheckpointError, and OSError where the disk refuses."""

    def __init__(self, store: Path) -> None:
        self.folder = store
        self.lookup = store / _LOOKUP
        """Where packs of the workspace's repository are found by the names that git gave them."""
        self.git = Git(store, self.lookup)
        self._objects = store / "objects"
        self._packs: list[_Pack] | None = None
        self._bulk: _PackWriter | None = None
        self._names = itertools.count()

    def create(self) -> None:
        """Create the repository if needed, and remove what a killed process left."""
        for folder in (self.folder, self._objects / "pack", self.folder / "refs"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = self.folder / "HEAD"
        config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
        for path, text in ((self.folder / "config", config), (head, "ref: refs/heads/none\n")):
            if not path.exists():
                replace_atomically(path, text.encode())
        for leftover in (self._objects / "pack").glob("tmp_*"):
            leftover.unlink(missing_ok=True)

    def write(self, kind: bytes, data: bytes, *, dense: bool = False) -> bytes:
        """Store an object and return its 20-byte id. `dense` data is not worth compressing."""
        oid = object_id(kind, data)
        if not self._is_packed(oid):
            if self._bulk is not None:
                if oid not in self._bulk:
                    self._bulk.add(oid, kind, data, 0 if dense else _FAST)
            elif not self.loose(oid).exists():
                self._write_loose(oid, _header(kind, data) + data, 0 if dense else _FAST)
        return oid

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """Write all objects of the block to one pack, which is far quicker when there are many."""
        self._bulk = _PackWriter(self._objects / "pack")
        try:
            yield
            self._bulk.finish()
        finally:
            self._bulk.close()
            self._bulk = None
            self._packs = None

    def read(self, oid: bytes) -> bytes:
        found = self._read_here(oid) or self.git.read(oid, _LARGEST_OBJECT)
        if found is None or object_id(*found) != oid:
            raise CheckpointError(
                f"a snapshot is missing from {self.folder}, or damaged there",
                hint="snapshots stay on the machine where they were made",
            )
        return found[1]

    def adopt(self, oid: bytes) -> None:
        """Copy a readable blob into this store if it is elsewhere, so that git finds it, too."""
        if not self._is_packed(oid) and not self.loose(oid).exists():
            with contextlib.suppress(CheckpointError):
                self.write(b"blob", self.read(oid))

    def _read_here(self, oid: bytes) -> tuple[bytes, bytes] | None:
        with contextlib.suppress(FileNotFoundError, zlib.error, ValueError):
            data = zlib.decompress(self.loose(oid).read_bytes())
            end = data.index(b"\0")
            return data[:end].partition(b" ")[0], data[end + 1 :]
        for pack in self._all_packs():
            offset = pack.find(oid)
            if offset is not None:
                return pack.read(offset)
        return None

    def loose(self, oid: bytes) -> Path:
        name = oid.hex()
        return self._objects / name[:2] / name[2:]

    def close(self) -> None:
        self.git.close()

    def _is_packed(self, oid: bytes) -> bool:
        return any(pack.find(oid) is not None for pack in self._all_packs())

    def _all_packs(self) -> list[_Pack]:
        if self._packs is None:
            self._packs = [_Pack(path) for path in (self._objects / "pack").glob("*.idx")]
        return self._packs

    def _write_loose(self, oid: bytes, data: bytes, level: int) -> None:
        path = self.loose(oid)
        temporary = self._objects / "pack" / f"tmp_{next(self._names)}"
        body = zlib.compress(data, level)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o400)
        with open(descriptor, "wb") as file:
            file.write(body)
        try:
            temporary.rename(path)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            temporary.rename(path)


def object_id(kind: bytes, data: bytes) -> bytes:
    digest = hashlib.sha1(_header(kind, data), usedforsecurity=False)
    digest.update(data)
    return digest.digest()


def _header(kind: bytes, data: bytes) -> bytes:
    return b"%s %d\0" % (kind, len(data))


class _PackWriter:
    """Writes one pack after another. Each is named once it is complete, its index last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[bytes, tuple[int, int]] = {}
        self._written: set[bytes] = set()
        self._file: BufferedRandom | None = None
        self._size = 0

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._entries or oid in self._written

    def add(self, oid: bytes, kind: bytes, data: bytes, level: int) -> None:
        if self._file is None:
            self._file = self._temporary.open("w+b")
            self._file.write(_HEADER + b"\0\0\0\0")
            self._size = self._file.tell()
        entry = _entry_header(_PACK_KINDS[kind], len(data)) + zlib.compress(data, level)
        self._file.write(entry)
        self._entries[oid] = (self._size, zlib.crc32(entry))
        self._size += len(entry)
        if self._size > _LARGEST_PACK:
            self.finish()

    def finish(self) -> None:
        if self._file is None:
            return
        self._file.seek(len(_HEADER))
        self._file.write(struct.pack(">I", len(self._entries)))
        self._file.seek(0)
        checksum = hashlib.file_digest(self._file, "sha1").digest()
        self._file.write(checksum)
        self.close()
        index = self._folder / "tmp_index"
        index.write_bytes(_index(self._entries, checksum))
        name = f"pack-{checksum.hex()}"
        self._temporary.rename(self._folder / f"{name}.pack")
        index.rename(self._folder / f"{name}.idx")
        self._written |= self._entries.keys()
        self._entries = {}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _temporary(self) -> Path:
        return self._folder / "tmp_pack"


def _entry_header(kind: int, size: int) -> bytes:
    head = bytearray()
    byte = kind << 4 | size & 15
    size >>= 4
    while size:
        head.append(byte | 128)
        byte = size & 127
        size >>= 7
    head.append(byte)
    return bytes(head)


def _index(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    names = sorted(entries)
    counts = [0] * 256
    for name in names:
        counts[name[0]] += 1
    body = b"".join(
        [
            _INDEX_HEADER,
            struct.pack(">256I", *itertools.accumulate(counts)),
            *names,
            struct.pack(f">{len(names)}I", *(entries[name][1] for name in names)),
            struct.pack(f">{len(names)}I", *(entries[name][0] for name in names)),
            checksum,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


class _Pack:
    """A pack that this module wrote, so without deltas, given by the path of its index."""

    def __init__(self, index: Path) -> None:
        self._path = index.with_suffix(".pack")
        self._index = index.read_bytes()
        if not self._index.startswith(_INDEX_HEADER):
            raise CheckpointError(f"{index} is damaged")
        self._fanout = (0, *struct.unpack_from(">256I", self._index, len(_INDEX_HEADER)))
        self._names = len(_INDEX_HEADER) + _FANOUT

    def find(self, oid: bytes) -> int | None:
        """Return an object's offset in the pack."""
        low, high = self._fanout[oid[0]], self._fanout[oid[0] + 1]
        while low < high:
            middle = (low + high) // 2
            at = self._names + middle * _OID
            name = self._index[at : at + _OID]
            if name == oid:
                offsets = self._names + self._fanout[-1] * (_OID + 4)
                offset: int = struct.unpack_from(">I", self._index, offsets + middle * 4)[0]
                return offset
            if name < oid:
                low = middle + 1
            else:
                high = middle
        return None

    def read(self, offset: int) -> tuple[bytes, bytes] | None:
        """Return the kind and content of an object; None if it is damaged."""
        with self._path.open("rb") as file:
            file.seek(offset)
            head = file.read(16)
            shift, length = 4, 1
            size = head[0] & 15
            while head[length - 1] & 128:
                size |= (head[length] & 127) << shift
                shift += 7
                length += 1
            # zlib needs at most 5 more bytes for each 16 kB that it can't compress.
            packed = head[length:] + file.read(size + size // 1000 + 64)
        try:
            return _KINDS[head[0] >> 4 & 7], zlib.decompressobj().decompress(packed, size + 1)
        except (zlib.error, KeyError):
            return None
