"""Copying sessions from one store to another, each completely or not at all.

Their folders, with everything kept in files anyway, stay where they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError
from agentcli.events import event_from_dict
from agentcli.events.json_text import compact_json
from agentcli.sessions.file_library import SESSIONS
from agentcli.sessions.manage.forking import write_events
from agentcli.sessions.manage.staging import staging
from agentcli.sessions.pages import PAGE
from agentcli.sessions.state import State, fold
from agentcli.sessions.store import Library, Store, StoredLog


@dataclass(frozen=True)
class Copied:
    """`events` is the number of events of the session, `new` how many of them were copied now."""

    session_id: str
    events: int
    new: int


def copy_session(home: Path, session_id: str, source: Library, target: Library) -> Copied:
    """Copy a session from `source`, which is only read, to `target`, continuing after the events
    that are there already. Then read it again and compare.

    Raises SessionError if the session is damaged or differs in `target`, UsageError if it is in use
    there. If killed at any moment, it leaves the session unchanged or with its beginning.
    """
    folder = home / SESSIONS / session_id
    log, ours = _sound(source.store(folder)), target.store(folder)
    if not log.records:
        return Copied(session_id, 0, 0)
    known = _sound(ours) if ours.exists() else StoredLog([])
    count = len(known.records)
    if known.records != log.records[:count]:
        raise SessionError(
            f"session {session_id} in {target.shown} is a different one, or went on there",
            hint="to keep this one, remove the other first",
        )
    if not count:
        with staging(home, session_id, target) as made:
            write_events(made, source.store(folder), len(log.records))
            _keep_time(made / "events", log.records)
    elif len(log.records) > count:
        with ours.lock():
            _append(ours, known, log.records[count:])
    if _sound(ours).records != log.records:
        raise SessionError(
            f"session {session_id} in {target.shown} differs from the original after copying"
        )
    return Copied(session_id, len(log.records), len(log.records) - count)


def _sound(store: Store) -> StoredLog:
    """Read a log. Raises SessionError if it is damaged."""
    log = store.read_log()
    if log.fault:
        raise SessionError(
            f"it is damaged: {log.fault}", hint="repair it first: agent sessions repair SESSION"
        )
    return log


def _append(store: Store, known: StoredLog, records: Sequence[dict[str, Any]]) -> None:
    state = fold(map(event_from_dict, known.records))
    with closing(store.open(known)):
        for start in range(0, len(records), PAGE):
            batch = records[start : start + PAGE]
            state = fold(map(event_from_dict, batch), state)
            store.append([(record["id"], compact_json(record)) for record in batch], state)
        store.save_state(state)


def _keep_time(events: Path, records: Sequence[dict[str, Any]]) -> None:
    """Date the copy to when the session was last used, not to now."""
    state = fold(map(event_from_dict, records), State())
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(state.updated_at).timestamp()
        os.utime(events, (moment, moment))
