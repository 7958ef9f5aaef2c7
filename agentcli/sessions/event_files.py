"""Reads the files of a session's events, up to the first that is not intact."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError
from agentcli.sessions.pages import PAGE, read_page
from agentcli.sessions.store import StoredLog
from agentcli.workspace.private import read_regular

_EVENT_FILE = re.compile(r"[0-9]{9}\.json", re.ASCII)


def read_log(folder: Path) -> StoredLog:
    """Return every intact event up to the first fault. Raises SessionError when there is none."""
    events = folder / "events"
    written = written_at(events)
    ids = sorted(written)
    records: list[dict[str, Any]] = []
    stale = []
    for start in range(0, len(ids), PAGE):
        wanted = ids[start : start + PAGE]
        if wanted != list(range(start, start + len(wanted))):
            missing = next(n for n, i in enumerate(wanted, start) if n != i)
            records += read_events(events, range(start, missing))[0]
            return StoredLog(records, fault=f"{event_path(folder, missing)} is missing")
        page = None
        if len(wanted) == PAGE:
            page = read_page(folder, start, max(written[event_id] for event_id in wanted))
        if page is None:
            page, damaged = read_events(events, range(start, start + len(wanted)))
            if damaged is not None:
                records += page
                if len(records) == len(ids) - 1:
                    return StoredLog(records, torn=damaged)
                return StoredLog(records, fault=f"{damaged} is damaged")
            if len(wanted) == PAGE:
                stale.append(start)
        records += page
    return StoredLog(records, stale_pages=tuple(stale))


def written_at(events: Path) -> dict[int, int]:
    """Return the time at which each event's file was written, in ns. Raises SessionError."""
    try:
        with os.scandir(events) as entries:
            return {
                int(entry.name[:-5]): entry.stat(follow_symlinks=False).st_mtime_ns
                for entry in entries
                if _EVENT_FILE.fullmatch(entry.name)
            }
    except OSError as error:
        raise SessionError(f"there is no session in {events.parent}: {error.strerror}") from error


def read_events(events: Path, ids: Sequence[int]) -> tuple[list[dict[str, Any]], Path | None]:
    """Return the intact events in order, and the path of the first one that is not intact."""
    records: list[dict[str, Any]] = []
    for event_id in ids:
        path = events / f"{event_id:09d}.json"
        try:
            record = json.loads(read_regular(path)[0])
        except (OSError, ValueError, RecursionError):
            return records, path
        if not isinstance(record, dict) or record.get("id") != event_id:
            return records, path
        records.append(record)
    return records, None


def event_path(folder: Path, event_id: int) -> Path:
    return folder / "events" / f"{event_id:09d}.json"
