"""Shows paths in /tmp that the user names to the session, read-only and in place, although its
/tmp is otherwise its own.

Only the user's own paths: other users can put anything into /tmp, under any name. So each part of
the path is opened from the one before, never through a symlink, and everything below /tmp must
belong to the user.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from agentcli.workspace.access_scope import TMP, AccessScope
from agentcli.workspace.private import WRITABLE_BY_OTHERS

_MOST = 20
"""Most paths taken from one message; someone who means more means a folder."""
_LONGEST = 4096
_PATH = re.compile(
    r"""(?<![\w./~$}-])(?:file://)?(?:
        "(?P<double>/tmp/[^"\n]+)" | '(?P<single>/tmp/[^'\n]+)' | `(?P<back>/tmp/[^`\n]+)`
        | (?P<bare>/tmp/(?:\\[ ]|[^\s"'`<>|&;()\\\0])+)
    )""",
    re.VERBOSE,
)
_AFTER_A_PATH = ".,:;!?]}…"
"""Characters that end a sentence rather than belong to a path."""


def paths_named(text: str) -> list[Path]:
    """Return the existing paths below /tmp that appear in what a user typed, in order and
    normalized, without `..`."""
    found: dict[Path, None] = {}
    for match in _PATH.finditer(text[:_LONGEST]):
        for candidate in _candidates(match):
            path = Path(os.path.normpath(candidate))
            if path.is_relative_to(TMP) and path != TMP and os.path.lexists(path):
                found[path] = None
                break
    return list(found)[:_MOST]


def _candidates(match: re.Match[str]) -> Iterator[str]:
    bare = match["bare"]
    if bare is None:
        yield match["double"] or match["single"] or match["back"]
        return
    bare = bare.replace("\\ ", " ")
    yield bare
    shorter = bare.rstrip(_AFTER_A_PATH)
    yield shorter
    # path:line and path:line:column, as compilers write them.
    yield re.sub(r"(:\d+){1,2}$", "", shorter)


def why_not_shown(path: Path, scope: AccessScope) -> str:
    """Return why `path`, which lies below /tmp, must not be shown to a session; "" if it may be."""
    if any(place.is_relative_to(path) or path.is_relative_to(place) for place in scope.hidden):
        return "agent's own files or secrets lie there"
    private = scope.mounts.get(TMP)
    if private is not None and _leads_through_link(private, path.relative_to(TMP)):
        return "the session has put a link in its place"
    try:
        return _what_is_wrong(path)
    except OSError as error:
        return f"it can't be read: {error.strerror}"


def _what_is_wrong(path: Path) -> str:
    """Return what is wrong with the path, or "". Raises OSError."""
    folder = os.open(TMP, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.relative_to(TMP).parts:
            inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
            info = os.fstat(folder)
            if info.st_uid != os.geteuid():
                return "it belongs to another user"
            if stat.S_ISLNK(info.st_mode):
                return "it leads through a link"
            if stat.S_ISDIR(info.st_mode) and info.st_mode & WRITABLE_BY_OTHERS:
                return "other users can change what lies there"
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            return "it is neither a file nor a folder"
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            return "it is a hard link, and may be another file"
        return ""
    finally:
        os.close(folder)


def _leads_through_link(root: Path, inner: Path) -> bool:
    """Return whether something that commands put below `root` makes part of `inner` a symlink."""
    return any((root / part).is_symlink() for part in (inner, *inner.parents))
