"""Sessions read without the right to write, from whatever store they are in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.events import Event, OpaqueEvent, event_from_dict
from agentcli.sessions.state import State, fold
from agentcli.sessions.store import Store, StoredLog


@dataclass(frozen=True)
class SessionRecord:
    """A session as read from its store, without the right to write."""

    folder: Path
    events: list[Event]
    state: State
    log: StoredLog

    def require_whole(self) -> None:
        """For who goes on with it, or does it again. Raises SessionError where it is damaged or has
        what this version does not know."""
        name = self.folder.name
        if self.log.fault:
            raise SessionError(
                f"session {name} is damaged: {self.log.fault}",
                hint=f"to go on with what is intact: agent sessions repair {name}; "
                f"to see it: agent sessions show {name}",
            )
        if any(isinstance(event, OpaqueEvent) for event in self.events):
            raise SessionError(
                f"session {name} was written by a newer version of agent",
                hint="upgrade agent to go on with it; it can be shown as it is",
            )


def read_record(folder: Path, store: Store) -> SessionRecord:
    """Raises SessionError when there is no session, nothing of it can be read, or it is another
    user's."""
    stored = store.read_log()
    events = []
    for record in stored.records:
        try:
            events.append(event_from_dict(record))
        except (ValueError, TypeError, AttributeError) as error:
            stored = replace(stored, fault=f"event {record.get('id')}: {error}")
            break
    cached = store.load_state()
    if cached is None or not -1 <= cached.end_id < len(events):
        cached = State()
    state = fold(events[cached.end_id + 1 :], cached)
    return SessionRecord(folder, events, state, stored)


def state_in(folder: Path, store: Store) -> State:
    """A session's state, from what is kept of it if that can be trusted, brought up to date with
    what was recorded since. Raises SessionError."""
    cached = store.load_state()
    if cached is None:
        return read_record(folder, store).state
    return fold(_events_after(store, cached.end_id), cached)


def state_or_empty(folder: Path, store: Store) -> State:
    """For lists: an empty state, which says so, of a session that can't be read."""
    try:
        return state_in(folder, store)
    except (SessionError, OSError, ValueError):
        return State(session_id=folder.name, title="(can't be read)")


def _events_after(store: Store, event_id: int) -> Iterator[Event]:
    """What a process that was killed recorded after it last saved the state."""
    records = store.read(range(event_id + 1, sys.maxsize))
    with suppress(ValueError, TypeError, AttributeError):
        for record in records:
            yield event_from_dict(record)
