"""What a session has left in the folder that its commands see as /tmp."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from agentcli.workspace.folders import walk
from agentcli.workspace.scope import TMP

_MOST_ENTRIES = 2_000
_OF_TOOLS = re.compile(
    r"\..*|tmp[\w-]{6,}|pytest-of-.*|(?:pip|npm|uv|yarn|go|node)-.*|v8-compile-cache.*|hsperfdata_.*"
    r"|cc\w{6}\..*|__pycache__"
)
"""Names that programs use in /tmp for their own purposes."""


def left_in_tmp(folder: Path, since_s: float, shown: Collection[Path] = ()) -> tuple[str, ...]:
    """Return the names, as commands see them, of the top-level entries of the session's own /tmp
    (`folder`) that changed since `since_s` (epoch). Left out are the `shown` places, which really
    lie elsewhere, programs' own files, and folders without content."""
    places = {path.relative_to(TMP).parts[0] for path in shown if path.is_relative_to(TMP)}
    found = []
    left = _MOST_ENTRIES
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            left -= 1
            if left < 0:
                break
            if entry.name in places or _OF_TOOLS.fullmatch(entry.name):
                continue
            with suppress(OSError):
                is_new = entry.stat(follow_symlinks=False).st_mtime >= since_s
                if is_new and not _is_hollow(entry):
                    found.append(f"{TMP}/{entry.name}")
    return tuple(sorted(found))


def _is_hollow(entry: os.DirEntry[str]) -> bool:
    """Whether `entry` is a folder without a byte in it. The sandbox leaves such folders behind: to
    mount a folder of the real /tmp (the workspace, say), it makes an empty one to mount it on."""
    if not entry.is_dir(follow_symlinks=False):
        return False
    seen = 0
    for parent, _, names in walk(Path(entry.path)):
        for name in names:
            seen += 1
            if seen > _MOST_ENTRIES or (parent / name).lstat().st_size:
                return False
    return True
