"""Creating a session from the beginning of another one's log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.events import Event, event_to_dict
from agentcli.events.json_text import compact_json
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.sessions.event_files import event_path
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.library import store_of
from agentcli.sessions.pages import PAGE
from agentcli.sessions.session import read_session
from agentcli.sessions.state import TRANSITIONS, AgentState, State, fold
from agentcli.sessions.store import Store


def copy_events(original: Path, copy: Path, last: int, further: Sequence[Event]) -> None:
    """Write events 0 to `last` of the session in `original`, followed by the `further` ones, as
    files into the empty folder `copy`. A turn in progress at that point is paused in the copy.

    Raises SessionError when they can't be written.
    """
    try:
        (copy / "events").mkdir(mode=0o700)
        theirs = store_of(original)
        if isinstance(theirs, FileStore):
            for event_id in range(last + 1):
                _copy(event_path(original, event_id), event_path(copy, event_id))
        else:
            write_events(copy, theirs, last + 1)
        events = [*_pause(fold(read_session(copy).events)), *further]
        with closing(FileStore(copy).open()) as store:
            store.append(list(_numbered(events, last + 1)))
    except OSError as error:
        raise SessionError(f"{copy} can't be written: {error.strerror}") from error


def write_events(folder: Path, source: Store, count: int) -> None:
    """Write the first `count` events of `source` as files of the session in `folder`, which has no
    events yet and is synced as a whole by the caller. Raises SessionError, OSError."""
    with closing(FileStore(folder, durable=False).open()) as store:
        for start in range(0, count, PAGE):
            records = source.read(range(start, min(start + PAGE, count)))
            store.append([(record["id"], compact_json(record)) for record in records])


def _copy(source: Path, target: Path) -> None:
    """Link one file into both sessions where possible, since events never change."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target, follow_symlinks=False)
        target.chmod(0o600)


def _pause(state: State) -> Iterator[Event]:
    if AgentState.PAUSED in TRANSITIONS[state.agent_state]:
        yield AgentStateChangedObservation(agent_state=AgentState.PAUSED, reason="forked")


def _numbered(events: Sequence[Event], first: int) -> Iterator[tuple[int, bytes]]:
    now = datetime.now(UTC)
    for event_id, event in enumerate(events, first):
        stamped = event.model_copy(update={"id": event_id, "timestamp": now})
        yield event_id, compact_json(event_to_dict(stamped))
