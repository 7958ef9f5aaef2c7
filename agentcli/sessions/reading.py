"""Reading sessions without the right to write, from any store."""

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
        """Raise SessionError where the session is damaged or has events unknown to this version.
        For callers that continue or repeat the session."""
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
                hint="upgrade agent to go on with it; without that, it can only be shown",
            )


def read_record(folder: Path, store: Store) -> SessionRecord:
    """Read a session. Raises SessionError when it does not exist, nothing of it can be read, or it
    is another user's."""
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
    """Return a session's state: the cached one if it can be trusted, updated with the events
    recorded since. Raises SessionError."""
    cached = store.load_state()
    if cached is None:
        return read_record(folder, store).state
    return fold(_events_after(store, cached.end_id), cached)


def state_or_empty(folder: Path, store: Store) -> State:
    """Return a session's state for a list; an unreadable session gets an empty one that says so."""
    try:
        return state_in(folder, store)
    except (SessionError, OSError, ValueError):
        return State(session_id=folder.name, title="(can't be read)")


def _events_after(store: Store, event_id: int) -> Iterator[Event]:
    """Return the events that a killed process recorded after it last saved the state."""
    records = store.read(range(event_id + 1, sys.maxsize))
    with suppress(ValueError, TypeError, AttributeError):
        for record in records:
            yield event_from_dict(record)
