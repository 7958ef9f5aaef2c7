"""What is known of a workspace since the last snapshot, kept in memory and in a file.

The file is a cache: with any doubt about it, the next snapshot reads every file again.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEADER = b"agent workspace scan 1"


@dataclass
class Known:
    """`raw` is the last scan, `extra` the records of what scans don't see, `tree` the snapshot of
    both. `folders` and `files` are left out, with the reason, but `kept` is not; `reported` has
    been told."""

    raw: bytes = b""
    extra: frozenset[bytes] = frozenset()
    kept: frozenset[bytes] = frozenset()
    uncertain: frozenset[bytes] = frozenset()
    tree: bytes | None = None
    folders: dict[bytes, str] = field(default_factory=dict)
    files: dict[bytes, str] = field(default_factory=dict)
    reported: set[bytes] = field(default_factory=set)
    touched: set[bytes] = field(default_factory=set)
    repositories: set[bytes] = field(default_factory=set)

    def save(self, path: Path, workspace: Path) -> None:
        facts = {
            "workspace": str(workspace),
            "tree": (self.tree or b"").hex(),
            "folders": _texts(self.folders),
            "files": _texts(self.files),
            "extra": sorted(map(os.fsdecode, self.extra)),
            "kept": sorted(map(os.fsdecode, self.kept)),
            "uncertain": sorted(map(os.fsdecode, self.uncertain)),
            "reported": sorted(map(os.fsdecode, self.reported)),
            "touched": sorted(map(os.fsdecode, self.touched)),
            "repositories": sorted(map(os.fsdecode, self.repositories)),
        }
        text = json.dumps(facts).encode()
        checksum = b"%08x" % zlib.crc32(self.raw, zlib.crc32(text))
        temporary = path.with_name(f"tmp_{path.name}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.writelines((_HEADER, b" ", checksum, b"\n", text, b"\n", self.raw))
        temporary.replace(path)


def load(path: Path, workspace: Path) -> Known | None:
    """None if there is nothing that can be relied on."""
    try:
        head, text, raw = path.read_bytes().split(b"\n", 2)
    except (OSError, ValueError):
        return None
    if head != b"%s %08x" % (_HEADER, zlib.crc32(raw, zlib.crc32(text))):
        return None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts: dict[str, Any] = json.loads(text)
        if facts["workspace"] == str(workspace):
            return Known(
                raw,
                frozenset(_paths(facts["extra"])),
                frozenset(_paths(facts["kept"])),
                frozenset(_paths(facts["uncertain"])),
                bytes.fromhex(facts["tree"]) or None,
                {os.fsencode(key): reason for key, reason in facts["folders"].items()},
                {os.fsencode(key): reason for key, reason in facts["files"].items()},
                _paths(facts["reported"]),
                _paths(facts["touched"]),
                _paths(facts["repositories"]),
            )
    return None


def _texts(reasons: dict[bytes, str]) -> dict[str, str]:
    return {os.fsdecode(path): reason for path, reason in reasons.items()}


def _paths(texts: Iterable[str]) -> set[bytes]:
    return set(map(os.fsencode, texts))
