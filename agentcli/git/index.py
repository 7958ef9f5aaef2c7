"""Reads the index of a repository without git, so that its configuration, and whatever that names,
has no effect.

Format: https://git-scm.com/docs/index-format, versions 2 to 4.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agentcli.files.private import read_private

HEADER_BYTES = 12
_HEADER = struct.Struct(">4sII")
_FIXED = {size: struct.Struct(f">10I{size}sH") for size in (20, 32)}
_FLAGS = struct.Struct(">H")
_EXTENDED = 0x4000
_GITLINK_BYTES = struct.pack(">I", 0o160000)
_MODE_AT = 24
"""Offset of the mode in an entry."""
_MAX_BYTES = 64_000_000


class IndexEntry(NamedTuple):
    """`facts` are what git recorded about the file: ctime and mtime in s and ns, device, inode,
    mode, user, group, size."""

    facts: tuple[int, ...]
    oid: bytes
    flags: int
    extended: int
    path: bytes

    @property
    def mode(self) -> int:
        return self.facts[6]


def entry_at(data: bytes, start: int, id_bytes: int, path: bytes) -> IndexEntry:
    """Return the entry of `path`, which begins at `start`."""
    fixed = _FIXED[id_bytes]
    *facts, oid, flags = fixed.unpack_from(data, start)
    extended = 0
    if flags & _EXTENDED:
        [extended] = _FLAGS.unpack_from(data, start + fixed.size)
    return IndexEntry(tuple(facts), oid, flags, extended, path)


def entries(data: bytes, id_bytes: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the start, end and path of each entry in an index whose object ids have `id_bytes`.
    Raises ValueError, struct.error or IndexError if it is not an index or is damaged."""
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC":
        raise ValueError("no index")
    at = _HEADER.size
    path = b""
    # The fixed part is not parsed here: for most entries, callers need only the path.
    fixed = _FIXED[id_bytes].size
    for _ in range(count):
        start = at
        at += fixed
        if data[at - _FLAGS.size] & _EXTENDED >> 8:
            at += _FLAGS.size
        if version == 4:
            cut, at = _varint(data, at)
            end = data.index(b"\0", at)
            path = path[: len(path) - cut] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            path = data[at:end]
            # Entries are padded with one to eight NULs to a multiple of eight bytes.
            at = start + (end - start + 8 & ~7)
        yield start, at, path


def gitlinks(index: Path) -> list[bytes]:
    """Return the paths that an index records as separate repositories; none if it is damaged."""
    data = read_private(index, _MAX_BYTES, follow=True) or b""
    # Going through all entries is slow, so first check whether any could be a gitlink.
    if _GITLINK_BYTES not in data:
        return []
    for id_bytes in (20, 32):
        with contextlib.suppress(struct.error, ValueError, IndexError):
            return [
                path
                for start, _, path in entries(data, id_bytes)
                if data[start + _MODE_AT : start + _MODE_AT + 4] == _GITLINK_BYTES
            ]
    return []


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number as git encodes offsets in packs; return it and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1
