"""A new session with the beginning of another one's log."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.events import event_to_dict
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.sessions.log import event_path
from agentcli.sessions.session import read_session
from agentcli.sessions.state import TRANSITIONS, AgentState
from agentcli.sessions.store import EventStore, encode


def copy_events(original: Path, copy: Path, last: int) -> None:
    """Make the session folder `copy` with events 0 to `last` of the session in `original`. A turn
    that was going on there is paused in it. Raises SessionError when it can't be written."""
    try:
        copy.mkdir(mode=0o700)
        (copy / "events").mkdir(mode=0o700)
        for event_id in range(last + 1):
            _copy(event_path(original, event_id), event_path(copy, event_id))
        folder_fd = os.open(copy / "events", os.O_RDONLY)
        os.fsync(folder_fd)
        os.close(folder_fd)
        _pause(copy)
    except OSError as error:
        shutil.rmtree(copy, ignore_errors=True)
        raise SessionError(f"{copy} can't be written: {error.strerror}") from error


def _copy(source: Path, target: Path) -> None:
    """Events never change, so both sessions may have the same file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        target.chmod(0o600)


def _pause(folder: Path) -> None:
    record = read_session(folder)
    if AgentState.PAUSED not in TRANSITIONS[record.state.agent_state]:
        return
    paused = AgentStateChangedObservation(
        id=len(record.events),
        timestamp=datetime.now(UTC),
        agent_state=AgentState.PAUSED,
        reason="forked",
    )
    store = EventStore(folder)
    store.open(paused.id)
    try:
        store.append([(paused.id, encode(event_to_dict(paused))[0])])
    finally:
        store.close()
