"""Where sessions are, and which one a person means."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from agentcli.errors import SessionError, UsageError
from agentcli.sessions.session import read_session
from agentcli.sessions.state import State, load_state


def new_folder(home: Path) -> Path:
    """A folder for a new session: `YYYYMMDD-HHMMSS-xxxx`, local time."""
    return home / "sessions" / f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def session_states(home: Path) -> Iterator[tuple[Path, State]]:
    """Every session with its state, newest first; one that can't be read has an empty state."""
    try:
        folders = [entry for entry in (home / "sessions").iterdir() if entry.is_dir()]
    except OSError:
        return
    for folder in sorted(folders, key=lambda path: path.name, reverse=True):
        try:
            yield folder, state_of(folder)
        except (SessionError, OSError, ValueError):
            yield folder, State(session_id=folder.name, title="(can't be read)")


def state_of(folder: Path) -> State:
    """A session's state, from its cache if that can be trusted. Raises SessionError."""
    return load_state(folder / "state.pkl") or read_session(folder).state


def find(home: Path, wanted: str) -> Path:
    """The folder of the session with this id, unique prefix or name. Raises UsageError."""
    exact = home / "sessions" / wanted
    if wanted and "/" not in wanted and wanted not in (".", "..") and exact.is_dir():
        return exact
    known = list(session_states(home))
    matches = [folder for folder, state in known if state.name == wanted][:1] or [
        folder for folder, _ in known if wanted and folder.name.startswith(wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(folder.name for folder in matches[:5])
        raise UsageError(f"{wanted!r} fits several sessions: {names}")
    raise UsageError(f"there is no session {wanted!r}", hint="see them: agent sessions list")


def newest(home: Path, workspace: Path) -> Path:
    """The newest session of this workspace. Raises UsageError when there is none."""
    for folder, state in session_states(home):
        if state.workspace == str(workspace):
            return folder
    raise UsageError(f"there is no session in {workspace} yet", hint="all: agent sessions list")
