"""Reading a repository's index, and telling whether two have the same meaning."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentcli.checkpoints.scan import REPOSITORY, UNCERTAIN_NS, FileFacts, time_text
from agentcli.checkpoints.trees import Entry, entry_mode
from agentcli.git.index import HEADER_BYTES, IndexEntry, entries, entry_at

_VERSIONS = (2, 3, 4)
_NOT_PLAIN = 0x8000 | 0x4000 | 0x3000
"""Flags of an entry: assumed unchanged, extended, in conflict."""
_MEANT = 0x8000 | 0x3000
_MEANT_EXTENDED = 0x6000
"""Flags set by people or merges: assumed unchanged, stage; not checked out, intent to add."""
_CONVERTS = re.compile(rb"autocrlf|\beol\b|attributesfile|include|worktreeconfig", re.I)
_LARGEST_INDEX = 100_000_000


def meaning(data: bytes) -> bytes | None:
    """Return a digest of what an index says about each path: mode, content, stage and the flags
    that people set. The stat data, which git refreshes whenever it looks at files, is left out.
    None when that can't be told, as for an index whose entries are partly in another file."""
    try:
        digest = hashlib.sha256()
        for item in _entries(data):
            flags = (item.flags & _MEANT, item.extended & _MEANT_EXTENDED)
            digest.update(
                b"%o %s %d %d %s\0" % (item.mode, item.oid.hex().encode(), *flags, item.path)
            )
        return digest.digest()
    except (struct.error, ValueError, IndexError):
        return None


def known_ids(workspace: Path, files: Mapping[bytes, FileFacts]) -> dict[bytes, Entry]:
    """Return entries for those of `files` that, by the index of the workspace's repository, still
    have the content it recorded; empty if git may have converted contents. Only a hint that the
    objects exist.
    """
    repository = workspace / os.fsdecode(REPOSITORY)
    if _may_convert(repository, files):
        return {}
    index = repository / "index"
    try:
        facts = index.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_INDEX:
            return {}
        return dict(_matching(index.read_bytes(), files, facts.st_mtime_ns))
    except (OSError, struct.error, ValueError, IndexError):
        return {}


def _entries(data: bytes) -> Iterator[IndexEntry]:
    """Yield the entries. Raises ValueError or struct.error if it is not an index, or not all of
    one."""
    size = _oid_size(data)
    if int.from_bytes(data[4:8], "big") not in _VERSIONS:
        raise ValueError("no index")
    at = HEADER_BYTES
    for start, at, path in entries(data, size):  # noqa: B007 - the end of the last is used
        yield entry_at(data, start, size, path)
    # An extension with a lower-case name changes what the entries mean.
    while at < len(data) - size:
        if data[at] >= ord("a"):
            raise ValueError("not the whole index")
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")


def _oid_size(data: bytes) -> int:
    """Return the length of object ids, which shows in the digest that an index ends with."""
    for algorithm in ("sha1", "sha256"):
        digest = hashlib.new(algorithm, usedforsecurity=False)
        digest.update(memoryview(data)[: -digest.digest_size])
        if data.endswith(digest.digest()):
            return digest.digest_size
    raise ValueError("damaged")


def _may_convert(repository: Path, files: Mapping[bytes, FileFacts]) -> bool:
    if any(path.endswith(b".gitattributes") for path in files):
        return True
    home = Path(os.environ.get("HOME") or "/nonexistent")
    xdg = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    attributes = (
        repository / "info" / "attributes",
        xdg / "attributes",
        Path("/etc/gitattributes"),
    )
    if any(os.path.lexists(path) for path in attributes):
        return True
    if any(name in os.environ for name in ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS")):
        return True
    configs = (repository / "config", home / ".gitconfig", xdg / "config", Path("/etc/gitconfig"))
    named = (os.environ.get("GIT_CONFIG_GLOBAL"), os.environ.get("GIT_CONFIG_SYSTEM"))
    return any(map(_converts, (*configs, *(Path(name) for name in named if name))))


def _converts(config: Path) -> bool:
    try:
        if not os.path.lexists(config) or not config.is_file():
            return False
        return _CONVERTS.search(config.read_bytes()) is not None
    except OSError:
        return True


def _matching(
    data: bytes, files: Mapping[bytes, FileFacts], written_ns: int
) -> Iterator[tuple[bytes, Entry]]:
    found = []
    for item in _entries(data):
        if item.path.endswith(b".gitattributes") or len(item.oid) != 20:
            return
        now = files.get(item.path)
        if now is not None and not item.flags & _NOT_PLAIN and _is_same(item, now, written_ns):
            kind = stat.S_IFLNK if now.kind == b"l" else stat.S_IFREG
            found.append((item.path, Entry(entry_mode(kind | now.mode), item.oid)))
    yield from found


def _is_same(item: IndexEntry, now: FileFacts, written_ns: int) -> bool:
    changed_s, changed_ns, modified_s, modified_ns, _, inode, mode, _, _, size = item.facts
    kind = {b"f": stat.S_IFREG, b"l": stat.S_IFLNK}.get(now.kind)
    changed = changed_s * 1_000_000_000 + changed_ns
    modified = modified_s * 1_000_000_000 + modified_ns
    return (
        kind == stat.S_IFMT(mode)
        and time_text(changed) == now.changed
        and time_text(modified) == now.modified
        and changed_ns != 0
        and inode == now.inode & 0xFFFFFFFF
        and size == now.size
        # A file modified in the instant the index was written may have changed unnoticed.
        and modified + UNCERTAIN_NS < written_ns
    )
