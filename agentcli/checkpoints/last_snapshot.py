"""What is known of a workspace as of the last snapshot, kept in memory and in a file.

The file is a cache: if there is any doubt about it, the next snapshot reads every file again.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.workspace.private import replace_atomically

_HEADER = b"agent workspace scan 2"
_REASONS = ("folders", "files")
_PATHS = ("extra", "kept", "uncertain", "reported", "touched", "repositories", "suspects")


@dataclass
class LastSnapshot:
    """`raw` is the last scan, `objects` the records of repositories' object files, `extra` the
    records of other paths that scans don't see, and `tree` the snapshot of all. `folders` and
    `files` are left out, each with the reason, except the `kept` paths in them; `reported` paths
    have been reported as left out. `suspects` are packs touched since they were kept, whose content
    may have changed."""

    raw: bytes = b""
    objects: bytes = b""
    tree: bytes | None = None
    folders: dict[bytes, str] = field(default_factory=dict)
    files: dict[bytes, str] = field(default_factory=dict)
    extra: frozenset[bytes] = frozenset()
    kept: frozenset[bytes] = frozenset()
    uncertain: frozenset[bytes] = frozenset()
    reported: frozenset[bytes] = frozenset()
    touched: frozenset[bytes] = frozenset()
    repositories: frozenset[bytes] = frozenset()
    suspects: frozenset[bytes] = frozenset()

    def save(self, path: Path, root: Path) -> None:
        facts: dict[str, Any] = {"root": str(root), "tree": (self.tree or b"").hex()}
        facts["scanned"] = len(self.raw)
        for name in _REASONS:
            facts[name] = {os.fsdecode(path): why for path, why in getattr(self, name).items()}
        for name in _PATHS:
            facts[name] = sorted(map(os.fsdecode, getattr(self, name)))
        text = json.dumps(facts).encode()
        checksum = b"%08x" % zlib.crc32(self.objects, zlib.crc32(self.raw, zlib.crc32(text)))
        head = (_HEADER, b" ", checksum, b"\n", text, b"\n")
        replace_atomically(path, *head, self.raw, self.objects)


def load(path: Path, root: Path) -> LastSnapshot | None:
    """Load the cache; None if it can't be relied on."""
    try:
        head, text, records = path.read_bytes().split(b"\n", 2)
    except (OSError, ValueError):
        return None
    if head != b"%s %08x" % (_HEADER, zlib.crc32(records, zlib.crc32(text))):
        return None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts: dict[str, Any] = json.loads(text)
        if facts["root"] == str(root):
            values: dict[str, Any] = {
                name: frozenset(map(os.fsencode, facts[name])) for name in _PATHS
            }
            for name in _REASONS:
                values[name] = {os.fsencode(path): why for path, why in facts[name].items()}
            raw, objects = records[: facts["scanned"]], records[facts["scanned"] :]
            return LastSnapshot(raw, objects, bytes.fromhex(facts["tree"]) or None, **values)
    return None
