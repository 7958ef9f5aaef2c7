"""Files of repositories that are too large to read for each snapshot: packs of objects.

Each is kept once, under a name made from its own name, its size and its last bytes, which in a pack
are a checksum of all before them. A file that commands may have written to since is checked against
that checksum before it is restored.
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
from agentcli.workspace.private import link_open_file

MOST_COPIED = 256_000_000
"""Most bytes of packs that a session copies where the file system can't share blocks. Further packs
get a hard link, which costs nothing: that preserves them when the original is removed, but not when
it is overwritten."""
_POOL = "packs"
_END = 32
_CHUNK = 1 << 20
_FICLONE = 0x40049409
"""From linux/fs.h: makes one file share the blocks of another until either is written to."""
_SEALED = re.compile(rb"\.(pack|idx|rev|bitmap|mtimes)$|(^|/)multi-pack-index[^/]*$")
"""Files that end with a checksum of the rest: SHA-1 or, in some repositories, SHA-256."""
_FOUND_BY_NAME = re.compile(rb"pack-[0-9a-f]{40}\.(pack|idx)")


class PackStore:
    """The packs of a store: `copies` are the agent's alone, `links` are hard links to files that
    others can write to. Sessions share copies through the pool, if there is one. Raises OSError."""

    def __init__(self, store: Path, lookup: Path, home: Path | None = None) -> None:
        self._copies = store / "kept"
        self._links = store / "linked"
        self._lookup = lookup / "pack"
        self._pool = home / _POOL if home is not None else None

    def keep(self, file: BinaryIO, path: bytes) -> bytes | None:
        """Keep the open `file` and return its 20-byte name in the store; None if it is too large.
        `path` ends with the name that git gave it."""
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
        """Open the kept file `name`. Raises OSError if it has changed since it was kept."""
        with self._path(name).open("rb") as file:
            if self.is_link(name) and not is_whole(file, path):
                raise OSError(0, "it was overwritten, and was too large for a copy")
            file.seek(0)
            yield file

    def copy_to(self, other: PackStore, names: Iterable[bytes]) -> None:
        """Make `other`, in a new store, keep these files too."""
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
                # A file in the pool must really have the content that its name stands for.
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
    """Remove the copies that no session uses any more."""
    with contextlib.suppress(OSError), os.scandir(home / _POOL) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_nlink == 1:
                Path(entry.path).unlink()


def _has_second_name(file: Path, second: Path) -> bool:
    """Whether `second` is a name of `file`, creating it if there is none yet."""
    try:
        os.link(file, second, follow_symlinks=False)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def share(file: BinaryIO, copy: BinaryIO) -> bool:
    """Make `copy`, an empty file, share the blocks of `file`; return False where that fails."""
    try:
        fcntl.ioctl(copy.fileno(), _FICLONE, file.fileno())
    except OSError:
        return False
    return True


def copy_bytes(file: BinaryIO, copy: BinaryIO) -> None:
    file.seek(0)
    shutil.copyfileobj(file, copy, _CHUNK)


def is_whole(file: IO[bytes], path: bytes) -> bool:
    """Whether the object file that git calls `path` still has its original content. False for other
    files, about which nothing is known."""
    if _SEALED.search(path):
        return any(_is_sealed(file, algorithm) for algorithm in ("sha1", "sha256"))
    loose = LOOSE.search(path)
    return loose is not None and _unpacked_digest(file, len(loose[2]) + 2) == loose[1] + loose[2]


def link_or_copy(source: Path, target: Path) -> None:
    """Link or copy a file between stores, which nobody else writes to."""
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
    """Make a hard link to the very file that is open, wherever its first name leads by now."""
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        link_open_file(file.fileno(), target.name, folder)
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
    """Return a loose object's digest in `length` hexadecimal digits; empty if it can't be
    unpacked."""
    digest = hashlib.new("sha1" if length == 40 else "sha256", usedforsecurity=False)
    unpacker = zlib.decompressobj()
    file.seek(0)
    try:
        while not unpacker.eof and (packed := unpacker.unconsumed_tail or file.read(_CHUNK)):
            digest.update(unpacker.decompress(packed, _CHUNK))
    except zlib.error:
        return b""
    return digest.hexdigest().encode() if unpacker.eof else b""
