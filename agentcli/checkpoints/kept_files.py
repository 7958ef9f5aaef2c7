"""Files of repositories that are too large to be read for each snapshot: packs of objects.

Each is kept once, under a name made of what tells it from others: its own name, its size and its
end, which in a pack is a checksum of all before it. A file that commands may have written to since
is compared with that checksum before it is brought back.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from agentcli.checkpoints.paths import LOOSE

MOST_COPIED = 256_000_000
"""Bytes of packs that a session has copies of where the file system can't share them. Others get a
second name, which costs nothing: they survive being removed, but not being overwritten."""
_POOL = "packs"
_END = 32
_CHUNK = 1 << 20
_FICLONE = 0x40049409
"""From linux/fs.h: makes one file share the blocks of another until either is written to."""
_SEALED = re.compile(rb"\.(pack|idx|rev|bitmap|mtimes)$|(^|/)multi-pack-index[^/]*$")
"""Files that end with a checksum of what is before it: SHA-1 or, in some repositories, SHA-256."""
_FOUND_BY_NAME = re.compile(rb"pack-[0-9a-f]{40}\.(pack|idx)")


class KeptFiles:
    """`copies` are ours alone, `links` are second names of files that others can write to. Sessions
    share their copies by the pool, if there is one. Raises OSError."""

    def __init__(self, store: Path, lookup: Path, home: Path | None = None) -> None:
        self._copies = store / "kept"
        self._links = store / "linked"
        self._lookup = lookup / "pack"
        self._pool = home / _POOL if home is not None else None

    def keep(self, file: BinaryIO, path: bytes) -> bytes | None:
        """The name, 20 bytes, under which the open `file` is kept from now on. `path` ends with
        what git calls it. None if it is too large to be kept."""
        size = os.fstat(file.fileno()).st_size
        called = path.rpartition(b"/")[2]
        end = os.pread(file.fileno(), _END, max(size - _END, 0))
        name = hashlib.sha1(b"%s %d %s" % (called, size, end), usedforsecurity=False).digest()
        if not self.holds(name) and not self._store(file, path, name, size):
            return None
        if _FOUND_BY_NAME.fullmatch(called):
            self._lookup.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                target = os.path.relpath(self._path(name), self._lookup)
                (self._lookup / os.fsdecode(called)).symlink_to(target)
        return name

    def holds(self, name: bytes) -> bool:
        return any((folder / name.hex()).exists() for folder in (self._copies, self._links))

    def is_link(self, name: bytes) -> bool:
        return not (self._copies / name.hex()).exists()

    @contextlib.contextmanager
    def opened(self, name: bytes, path: bytes) -> Iterator[BinaryIO]:
        """What is kept under `name`, as it was when it was kept. Raises OSError if it is not."""
        with self._path(name).open("rb") as file:
            if self.is_link(name) and not is_whole(file, path):
                raise OSError(0, "it was overwritten, and was too large for a copy")
            file.seek(0)
            yield file

    def copy_to(self, other: KeptFiles, names: Iterable[bytes]) -> None:
        """Makes `other`, of a new store, keep these too."""
        for mine, theirs in ((self._copies, other._copies), (self._links, other._links)):
            theirs.mkdir(mode=0o700, exist_ok=True)
            for name in names:
                if (mine / name.hex()).exists():
                    link_or_copy(mine / name.hex(), theirs / name.hex())
        if self._lookup.is_dir():
            shutil.copytree(self._lookup, other._lookup, symlinks=True)

    def _path(self, name: bytes) -> Path:
        return (self._links if self.is_link(name) else self._copies) / name.hex()

    def _store(self, file: BinaryIO, path: bytes, name: bytes, size: int) -> bool:
        self._copies.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = self._copies / name.hex()
        if self._pool is not None and _has_second_name(self._pool / name.hex(), copy):
            return True
        temporary = self._copies / "tmp_file"
        with temporary.open("w+b") as target:
            shared = share(file, target)
            if shared or size + self._copied() <= MOST_COPIED:
                if not shared:
                    copy_bytes(file, target)
                    target.flush()
                temporary.replace(copy)
                # Who finds it by its name must find what has that name.
                if self._pool is not None and not shared and is_whole(target, path):
                    self._pool.mkdir(mode=0o700, exist_ok=True)
                    _has_second_name(copy, self._pool / name.hex())
                return True
        temporary.unlink()
        self._links.mkdir(mode=0o700, exist_ok=True)
        return _link(file, self._links / name.hex())

    def _copied(self) -> int:
        with os.scandir(self._copies) as entries:
            return sum(entry.stat().st_size for entry in entries)


def empty_pool(home: Path) -> None:
    """Remove the copies that no session has any more."""
    with contextlib.suppress(OSError), os.scandir(home / _POOL) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_nlink == 1:
                Path(entry.path).unlink()


def _has_second_name(file: Path, second: Path) -> bool:
    """Whether `second` is a name of `file` too, from now on if not before."""
    try:
        os.link(file, second, follow_symlinks=False)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def share(file: BinaryIO, copy: BinaryIO) -> bool:
    """Makes `copy`, an empty file, hold what `file` does in no time; False where it can't."""
    try:
        fcntl.ioctl(copy.fileno(), _FICLONE, file.fileno())
    except OSError:
        return False
    return True


def copy_bytes(file: BinaryIO, copy: BinaryIO) -> None:
    file.seek(0)
    shutil.copyfileobj(file, copy, _CHUNK)


def is_whole(file: IO[bytes], path: bytes) -> bool:
    """Whether an object file, which git calls `path`, still has the content that it was made
    with. Of others nothing is known, so they are not."""
    if _SEALED.search(path):
        return any(_is_sealed(file, algorithm) for algorithm in ("sha1", "sha256"))
    loose = LOOSE.search(path)
    return loose is not None and _unpacked_digest(file, len(loose[2]) + 2) == loose[1] + loose[2]


def link_or_copy(source: Path, target: Path) -> None:
    """Between stores, which nobody else writes to."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            temporary = target.with_name(f"tmp_{target.name}")
            shutil.copyfile(source, temporary, follow_symlinks=False)
            temporary.replace(target)


def _link(file: BinaryIO, target: Path) -> bool:
    """A second name for the very file that is open, whatever its first name leads to by now."""
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Giving a folder makes CPython call linkat, which alone follows this link.
        place = f"/proc/self/fd/{file.fileno()}"
        os.link(place, target.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def _is_sealed(file: IO[bytes], algorithm: str) -> bool:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    left = os.fstat(file.fileno()).st_size - digest.digest_size
    file.seek(0)
    while left > 0 and (chunk := file.read(min(left, _CHUNK))):
        digest.update(chunk)
        left -= len(chunk)
    return left == 0 and file.read(digest.digest_size + 1) == digest.digest()


def _unpacked_digest(file: IO[bytes], length: int) -> bytes:
    """Of a loose object, in `length` hexadecimal digits; empty if it can't be unpacked."""
    digest = hashlib.new("sha1" if length == 40 else "sha256", usedforsecurity=False)
    unpacker = zlib.decompressobj()
    file.seek(0)
    try:
        while not unpacker.eof and (packed := unpacker.unconsumed_tail or file.read(_CHUNK)):
            digest.update(unpacker.decompress(packed, _CHUNK))
    except zlib.error:
        return b""
    return digest.hexdigest().encode() if unpacker.eof else b""
