"""Reads indexes of repositories without git, so that configuration, and whatever that names, has no
effect, and writes them.

Everything is read as git reads it (`read-cache.c`, `split-index.c`), which compares no checksum:
what git sees differently from us could hide there. Format:
https://git-scm.com/docs/index-format, versions 2 to 4. Which paths git refuses to write follows
`verify_path` in `read-cache.c`, `is_ntfs_dotgit` in `path.c`, and `is_hfs_dotgit` in `utf8.c`. git
applies these rules when it puts a path into an index, but not when it reads one from there. Here
those for the file systems of other machines always apply."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import NamedTuple

LARGEST = 256_000_000
"""Largest index that is read, in bytes: two million files."""
_MOST_EXTENSIONS = 100
"""git writes eight at most."""
HEADER_BYTES = 12
_HEADER = struct.Struct(">4sII")
_FIXED = {size: struct.Struct(f">10I{size}sH") for size in (20, 32)}
_FLAGS = struct.Struct(">H")
_EXTENDED_SIZES = {fixed.size + _FLAGS.size for fixed in _FIXED.values()}
_NUMBER = struct.Struct(">I")
_WORD = struct.Struct(">Q")
_EXTENDED = 0x4000
_STAGE = 0x3000
_LENGTH = 0x0FFF
_MODE_AT = 24
"""Offset of the mode in an entry."""
_KIND_AT = _MODE_AT + 2
SPARSE_FOLDER, FILE, LINK, GITLINK = 0x4, 0x8, 0xA, 0xE
"""Kinds of entries. A sparse folder stands for all that is in one outside of a sparse checkout."""
GITLINK_MODE = struct.pack(">I", 0o160000)


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
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    at = _HEADER.size
    path = b""
    left = LARGEST
    # The fixed part is not parsed here: for most entries, callers need only the path.
    fixed = _FIXED[id_bytes].size
    for _ in range(count):
        start = at
        at += fixed
        high, low = data[at - 2], data[at - 1]
        if high & _EXTENDED >> 8:
            at += _FLAGS.size
        kept = 0
        if version == 4:
            cut, at = _varint(data, at)
            kept = len(path) - cut if start > HEADER_BYTES else 0
        length = (high << 8 | low) & _LENGTH
        end = data.index(b"\0", at) if length == _LENGTH else at + length - kept
        if kept < 0 or end < at or data[end] != 0:
            raise ValueError("a path that is too long or too short")
        # Compressed paths can be a thousand times as long as the index.
        left -= kept + end - at
        if left < 0:
            raise ValueError("paths too long to be read")
        path = path[:kept] + data[at:end]
        # Without compression, entries are padded with one to eight NULs to a multiple of eight.
        at = end + 1 if version == 4 else start + (end - start + 8 & ~7)
        yield start, at, path


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number as git encodes offsets in packs; return it and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
        if value >= 1 << 32:
            raise ValueError("an offset beyond all paths")
    return value, at + 1


# --- whole indexes ------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An entry as it stands in the file up to its path, flags included."""

    fixed: bytes
    path: bytes

    @property
    def kind(self) -> int:
        """One of LINK, GITLINK, SPARSE_FOLDER and, for nearly all, FILE."""
        return self.fixed[_KIND_AT] >> 4

    @property
    def mode(self) -> bytes:
        return self.fixed[_MODE_AT : _MODE_AT + 4]

    @property
    def stage(self) -> int:
        """Not 0 for a side of a conflict."""
        return self.flags & _STAGE

    @property
    def flags(self) -> int:
        at = len(self.fixed) - (4 if len(self.fixed) in _EXTENDED_SIZES else 2)
        flags: int = _FLAGS.unpack_from(self.fixed, at)[0]
        return flags


@dataclass
class Index:
    """What git finds in an index and in the one it shares entries with. `is_damaged`: it is not as
    git writes it, and git may see more in it than the `entries`."""

    entries: list[Entry]
    is_damaged: bool = False
    is_sparse: bool = False


def read_index(read: Callable[[str], bytes | None], id_bytes: int) -> Index | None:
    """Return the index of a git folder; None if there is none that git would read. `read` returns
    at most LARGEST bytes of a file there, None if there is no such file."""
    own = parsed_file(read("index") or b"", id_bytes)
    if own is None:
        return None
    links = own.links
    found = Index(own.entries, own.is_damaged, any(name == b"sdir" for name, _ in own.extensions))
    if links and (base_id := links[-1][:id_bytes]) != bytes(id_bytes):
        base = parsed_file(read(f"sharedindex.{base_id.hex()}") or b"", id_bytes)
        if base is None:
            return None
        try:
            found.entries = _merged(base.entries, own.entries, links[-1][id_bytes:])
        except (struct.error, ValueError, IndexError):
            found = Index(base.entries, is_damaged=True)
        found.is_damaged |= base.is_damaged or len(links) > 1
    return found


@dataclass
class IndexFile:
    """An index, or the part of one that others share. `links` lead from one to its shared part;
    then entries without a path take the place of others there."""

    entries: list[Entry] = field(default_factory=list)
    extensions: list[tuple[bytes, bytes]] = field(default_factory=list)
    is_damaged: bool = False

    @property
    def links(self) -> list[bytes]:
        return [body for name, body in self.extensions if name == b"link"]


def parsed_file(data: bytes, id_bytes: int) -> IndexFile | None:
    """Return what stands in one file, as far as it can be read; None if git would refuse it."""
    if data[:4] != b"DIRC" or not 2 <= int.from_bytes(data[4:8], "big") <= 4:
        return None
    found = IndexFile()
    places: list[tuple[int, int, bytes]] = []
    try:
        places.extend(entries(data, id_bytes))
        starts = [start for start, _, _ in places] + [places[-1][1] if places else HEADER_BYTES]
        found.extensions = list(_extensions(data, starts[-1], id_bytes))
        found.is_damaged = not _starts_agree(data, starts, found.extensions, id_bytes)
    except (struct.error, ValueError, IndexError):
        found.is_damaged = True
    size = _FIXED[id_bytes].size
    found.entries = [
        Entry(data[start : start + size + (data[start + size - 2] >> 5 & 2)], path)
        for start, _, path in places
    ]
    return found


def _extensions(data: bytes, at: int, id_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    end = len(data) - id_bytes
    for number in count():
        if at > end - 8:
            return
        if number == _MOST_EXTENSIONS:
            raise ValueError("too many extensions")
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        if at + 8 + size > end:
            raise ValueError("an extension beyond the end")
        yield data[at : at + 4], data[at + 8 : at + 8 + size]
        at += 8 + size


def _starts_agree(
    data: bytes, starts: list[int], extensions: list[tuple[bytes, bytes]], id_bytes: int
) -> bool:
    """Return whether the tables by which threads of git find entries and extensions say where
    these are."""
    last = data[len(data) - 2 * id_bytes - 12 : len(data) - id_bytes]
    if last[:4] == b"EOIE" and _NUMBER.unpack_from(last, 8)[0] != starts[-1]:
        return False
    for name, body in extensions:
        if name == b"IEOT":
            numbers = list(_NUMBER.iter_unpack(body[4 : 4 + (len(body) - 4) // 8 * 8]))
            at = 0
            for [start], [count] in zip(numbers[::2], numbers[1::2], strict=True):
                if at + count >= len(starts) or start != starts[at]:
                    return False
                at += count
            if at != len(starts) - 1:
                return False
    return True


def _merged(base: list[Entry], own: list[Entry], bitmaps: bytes) -> list[Entry]:
    """Return the entries of a split index. Raises ValueError or struct.error if the bitmaps can't
    be read or don't fit."""
    merged = {}
    deleted: set[int] = set()
    replaced: list[int] = []
    if bitmaps:
        bits, rest = _bitmap(bitmaps, len(base))
        deleted = set(bits)
        replaced, _ = _bitmap(rest, len(base))
    if len(replaced) > len(own):
        raise ValueError("more replacements than entries")
    base = list(base)
    for number, position in enumerate(replaced):
        base[position] = Entry(own[number].fixed, base[position].path)
    kept = (entry for position, entry in enumerate(base) if position not in deleted)
    for entry in (*kept, *islice(own, len(replaced), None)):
        merged[entry.path, entry.stage] = entry
    return [merged[key] for key in sorted(merged)]


def _bitmap(data: bytes, size: int) -> tuple[list[int], bytes]:
    """Return the positions of the bits that an EWAH bitmap sets, and what follows it. Raises
    ValueError if one is not below `size`."""
    count = int.from_bytes(data[4:8], "big")
    if len(data) < 12 + 8 * count:
        raise ValueError("a bitmap beyond the end")
    words = iter([word for [word] in _WORD.iter_unpack(data[8 : 8 + 8 * count])])
    bits: list[int] = []
    at = 0
    for word in words:
        run, literals = word >> 1 & 0xFFFFFFFF, word >> 33
        if word & 1 and at + 64 * run > size:
            raise ValueError("a bit for no entry")
        bits += range(at, at + 64 * run) if word & 1 else ()
        at += 64 * run
        for literal in islice(words, literals):
            bits += (at + bit for bit in range(64) if literal >> bit & 1)
            at += 64
    if bits and max(bits) >= size:
        raise ValueError("a bit for no entry")
    return bits, data[12 + 8 * count :]


def index_data(index: Index, id_bytes: int) -> bytes:
    """Return a file with these entries, in one piece and without what git can find out again."""
    size = _FIXED[id_bytes].size
    version = 3 if any(len(entry.fixed) > size for entry in index.entries) else 2
    parts = [_HEADER.pack(b"DIRC", version, len(index.entries))]
    for entry in index.entries:
        fixed, path = entry
        flags = entry.flags & ~_LENGTH | min(len(path), _LENGTH)
        start = fixed[: size - 2] + _FLAGS.pack(flags) + fixed[size:]
        parts += start, path, bytes(8 - (len(start) + len(path)) % 8)
    if index.is_sparse:
        parts.append(b"sdir" + bytes(4))
    data = b"".join(parts)
    algorithm = "sha1" if id_bytes == 20 else "sha256"
    return data + hashlib.new(algorithm, data, usedforsecurity=False).digest()


_IGNORED = rb"(?:\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf)*"
"""What HFS+ ignores in names: marks of direction, zero width (in UTF-8)."""


def _on_hfs(name: bytes) -> bytes:
    letters = (re.escape(name[at : at + 1]) for at in range(len(name)))
    return _IGNORED + _IGNORED.join(letters) + _IGNORED


# Paths stand between NULs, so that one search goes through any number of them.
_REFUSED = re.compile(
    rb"[\0/\\](?=[.g\0/\xe2\xef])(?:(?:\.git|git~1)[. ]*[\0/\\:]|(?<!\\)(?:\.{0,2}|"
    + _on_hfs(b".git")
    + rb")[\0/])",
    re.IGNORECASE,
)
_SHORTENED = rb"|".join(
    rb"gi7eba"[:length] + rb"~[1-9][0-9]{%d}" % (6 - length) for length in range(7)
)
_REFUSED_LINK = re.compile(
    rb"[\0/\\](?:(?:\.gitmodules|gitmod~[1-4]|" + _SHORTENED + rb")[. ]*[\0:]"
    rb"|(?<!\\)" + _on_hfs(b".gitmodules") + rb"[\0/])",
    re.IGNORECASE,
)


def refused(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of an index that git would not take today: it would write them outside of
    the working tree, into a git folder, or through a link of the same index."""
    special = [entry for entry in entries if entry.kind != FILE]
    found = dict.fromkeys(_refused_by_name(entries, special))
    # git writes one mode of gitlinks, but takes others for them too.
    found |= dict.fromkeys(e for e in special if e.kind == GITLINK and e.mode != GITLINK_MODE)
    links = {e.path for e in special if e.kind in (LINK, GITLINK) and not e.stage}
    if links and links & _folders(entries):
        found |= dict.fromkeys(entry for entry in entries if links & _above(entry.path))
    return list(found)


def is_harmless_index(data: bytes, id_bytes: int) -> bool:
    """Return whether a file by itself, as a whole index or a part, has only what git would put
    there."""
    found = parsed_file(data, id_bytes)
    if found is None:
        return True
    named = [entry for entry in found.entries if entry.path or not found.links]
    return not found.is_damaged and not refused(named)


def is_refused(path: bytes, *, is_link: bool = False) -> bool:
    """Return whether git refuses to write `path`."""
    text = b"\0%b\0" % path
    return (
        b"\0" in path
        or _REFUSED.search(text) is not None
        or (is_link and _REFUSED_LINK.search(text) is not None)
    )


def _refused_by_name(entries: Sequence[Entry], special: Sequence[Entry]) -> Iterator[Entry]:
    # A sparse folder ends with a slash.
    text = b"\0%b\0" % b"\0".join([entry.path for entry in entries if entry.kind != SPARSE_FOLDER])
    count = text.count(b"\0") - 1 + sum(entry.kind == SPARSE_FOLDER for entry in special)
    suspicious = entries if count != len(entries) or _REFUSED.search(text) else special
    for entry in suspicious:
        path = entry.path[:-1] if entry.kind == SPARSE_FOLDER else entry.path
        if is_refused(path, is_link=entry.kind == LINK):
            yield entry


def _folders(entries: Sequence[Entry]) -> set[bytes]:
    nearest = {entry.path.rpartition(b"/")[0] for entry in entries}
    return nearest.union(*map(_above, nearest))


def _above(path: bytes) -> set[bytes]:
    """Return the folders around `path`, as paths."""
    parts = path.split(b"/")
    return {b"/".join(parts[:length]) for length in range(1, len(parts))}
