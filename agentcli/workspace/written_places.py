"""A list of all folders that commands could ever write to, kept in a file beside the sessions.

A program that one session's commands left in such a folder may be on the PATH of a later session
that works elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agentcli.workspace.private import dump_json

_FILE = "written-places.json"
_MOST = 500


def written_places(home: Path) -> list[str]:
    """Return the folders, newest last; none if the file in the agent's state folder `home` is
    missing or damaged."""
    try:
        found = json.loads((home / _FILE).read_bytes())
    except (OSError, ValueError):
        return []
    known = found if isinstance(found, list) else []
    return [place for place in known if isinstance(place, str) and place.startswith("/")]


def add_written_places(home: Path, folders: Iterable[Path]) -> None:
    """Add `folders` to the list; do nothing if it can't be written."""
    known = written_places(home)
    new = [str(folder) for folder in folders if str(folder) not in known]
    if not new:
        return
    with suppress(OSError):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        dump_json(home / _FILE, [*known, *new][-_MOST:], shared=True)
