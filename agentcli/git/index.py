"""The index of a repository, read without git: neither its configuration nor anything that it names
has any effect.

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
"""Where the mode is in an entry."""
_MAX_BYTES = 64_000_000


class IndexEntry(NamedTuple):
    """`facts` are what git noted of the file: ctime and mtime in s and ns, device, inode, mode,
    user, group, size."""

    facts: tuple[int, ...]
    oid: bytes
    flags: int
    extended: int
    path: bytes

    @property
    def mode(self) -> int:
        return self.facts[6]


def entry_at(data: bytes, start: int, id_bytes: int, path: bytes) -> IndexEntry:
    """What is said at `start` of `path`."""
    fixed = _FIXED[id_bytes]
    *facts, oid, flags = fixed.unpack_from(data, start)
    extended = 0
    if flags & _EXTENDED:
        [extended] = _FLAGS.unpack_from(data, start + fixed.size)
    return IndexEntry(tuple(facts), oid, flags, extended, path)


def entries(data: bytes, id_bytes: int) -> Iterator[tuple[int, int, bytes]]:
    """Where each entry of an index whose object ids have `id_bytes` begins and ends, and its path.
    Raises ValueError, struct.error or IndexError for what is no index, or is damaged."""
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC":
        raise ValueError("no index")
    at = _HEADER.size
    path = b""
    # Nothing of this is looked at here: most entries are asked for no more than their paths.
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
    """The paths that an index has as repositories of their own. None for one that is damaged."""
    data = read_private(index, _MAX_BYTES, follow=True) or b""
    # Going through all entries takes long, so first it is seen whether any could be one.
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
    """As git writes the offsets of packs: a number and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1
