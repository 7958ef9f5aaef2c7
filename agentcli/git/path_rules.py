"""Which paths git refuses to write, by its own rules: `verify_path` in `read-cache.c`,
`is_ntfs_dotgit` in `path.c`, `is_hfs_dotgit` in `utf8.c`.

git applies them when it puts a path into an index, but not when it reads one from there. Here its
rules for the file systems of other machines always apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentcli.git.index import (
    FILE,
    GITLINK,
    GITLINK_MODE,
    LINK,
    SPARSE_FOLDER,
    Entry,
    parsed_file,
)

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
