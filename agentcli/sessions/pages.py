"""Pages: 100 aligned events in one file, so that a long log can be read quickly.

Pages are derived data. If one is damaged or older than one of its events, the events themselves are
read and the page is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentcli.events.json_text import json_value
from agentcli.workspace.private import read_regular, replace_atomically

PAGE = 100


def page_path(folder: Path, start: int) -> Path:
    return folder / "event_cache" / f"{start}-{start + PAGE - 1}.json"


def write_page(folder: Path, start: int, bodies: Sequence[bytes]) -> None:
    """Store the JSON of the `PAGE` events that begin at `start`. Raises OSError."""
    joined = b"[" + b",\n".join(bodies) + b"]"
    digest = hashlib.sha256(joined).hexdigest().encode()
    replace_atomically(page_path(folder, start), digest, b"\n", joined)


def read_page(folder: Path, start: int, written_ns: int = 0) -> list[dict[str, Any]] | None:
    """Return the events of the page that begins at `start`, or None unless it is intact and not
    older than `written_ns`, the time its newest event was written."""
    try:
        data, status = read_regular(page_path(folder, start))
    except OSError:
        return None
    digest, _, body = data.partition(b"\n")
    if status.st_mtime_ns < written_ns or hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    page = json_value(body)
    wanted = range(start, start + PAGE)
    if not isinstance(page, list) or len(page) != PAGE:
        return None
    right = (isinstance(r, dict) and r.get("id") == i for r, i in zip(page, wanted, strict=True))
    return page if all(right) else None
