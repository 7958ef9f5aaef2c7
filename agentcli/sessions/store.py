"""The interface to whatever keeps sessions: files, or a database.

A `Store` holds one session, a `Library` all sessions of a home. A session is identified by its
folder, `<home>/sessions/<id>`, wherever its events are. The folder holds its files: content too
large for events, snapshots, logs and the inbox.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self

from agentcli.errors import SessionError, UsageError
from agentcli.sessions.folder import writing_to
from agentcli.sessions.state import State


@dataclass(frozen=True)
class StoredLog:
    """`records` are the JSON objects of events 0, 1, 2 …; `torn` is a damaged last file that was
    left out; `fault` says what is wrong before the end, which makes the session unfit for writing;
    `stale_pages` are the first ids of the pages to make again."""

    records: list[dict[str, Any]]
    torn: Path | None = None
    fault: str | None = None
    stale_pages: tuple[int, ...] = ()


@dataclass(frozen=True)
class Holder:
    """The process that writes to a session."""

    pid: int
    host: str
    is_here: bool = True
    """Whether it runs on this machine."""


class Lock(Protocol):
    """The right to write to a session, held by one process at a time."""

    def release(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class Store(Protocol):
    """The events of one session as JSON objects, numbered from 0. Each is stored whole or not at
    all, and never changes."""

    exhausted: SessionError | None
    """Set when the last event only just fitted: nothing after it may be acted on."""

    def exists(self) -> bool:
        """Whether the session exists."""

    def check(self) -> None:
        """Raise SessionError when the session does not exist or is another user's."""

    def create(self) -> Lock:
        """Create the session, which must not exist yet, and lock it. Raises SessionError, and then
        leaves nothing behind."""

    def lock(self) -> Lock:
        """Lock the session for the one process that may append. Raises UsageError when another
        holds the lock."""

    def holder(self) -> Holder | None:
        """Return the process that holds the lock at this moment."""

    def read_log(self) -> StoredLog:
        """Return every intact event up to the first fault. Raises SessionError when the session
        does not exist or is another user's."""

    def read(self, ids: range) -> Sequence[dict[str, Any]]:
        """Return these events, up to the first that is missing or damaged. Raises SessionError
        if sessions can't be read at all."""

    def count(self) -> int:
        """Return the number of events, at a cost that does not grow with it."""

    def stamp(self, event_id: int) -> str:
        """Return a text that identifies what is stored under this id; another event in its place
        has another text."""

    def load_state(self) -> State | None:
        """Return the state as saved with the newest event or an earlier one; None if it has to be
        folded from all events."""

    def open(self, log: StoredLog | None = None) -> Self:
        """Prepare to append. The caller has the lock and has read `log`; None for a new session."""

    def append(
        self, records: Sequence[tuple[int, bytes]], state: State, *, barrier: bool = True
    ) -> None:
        """Write events durably; `state` is the session's state after them. Without `barrier` a
        crash of the computer may undo the write until the next append: right for observations,
        which reach the disk before or with the next action.

        Raises SessionError when they can't be written or an id is taken.
        """

    def save_state(self, state: State) -> None:
        """Save the state, so that it need not be folded from the events."""

    def close(self) -> None: ...

    def own_files(self) -> Sequence[str] | None:
        """Return the names in the session's folder that belong to this copy of the session, None if
        all do. A copy in another store shares the folder and keeps the rest."""

    def remove(self) -> None:
        """Delete the events; the caller has the lock. Raises SessionError."""


class Library(Protocol):
    """All sessions of a home. Every method raises SessionError where they can't be reached."""

    shown: str
    """Where the sessions are, as shown to people; contains no secret."""
    places: Sequence[Path]
    """Files and folders outside the home that hold the sessions."""

    def store(self, folder: Path) -> Store:
        """Return the store of the session in `folder`, which need not exist."""

    def states(self, workspace: str | None = None) -> Iterator[tuple[Path, State]]:
        """Yield every session of one workspace or of all with its state, the last used first. An
        unreadable session has an empty state."""

    def holders(self, session_ids: Iterable[str]) -> dict[str, Holder]:
        """Return the current holder of the lock for each of these sessions that is locked."""

    def stamps(self) -> Iterable[tuple[str, str]]:
        """Yield the id of every session with a text that changes after each append; the text is
        empty where that can't be told."""

    def close(self) -> None:
        """Close what is open; it is opened again when needed."""

    def adopt(self, made: Path, session_id: str) -> None:
        """Add a session from the folder `made`, which holds all of it as files, durably and in one
        go. Raises SessionError when a session with this id exists."""


_FILE = "session.lock"
_MOST_BYTES = 4096


class SessionLock(Lock):
    """A lock on the session in `folder`, held until it is released or the block ends. Raises
    UsageError, naming the holder, when another process writes to the session, and SessionError when
    the lock file can't be opened.

    The kernel frees the lock however its holder ends, so a file left by a killed process locks
    nobody out.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / _FILE
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with writing_to(path):
                self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise SessionError(f"{path} can't be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = parse_holder(os.pread(self._fd, _MOST_BYTES, 0))
            os.close(self._fd)
            raise in_use(folder.name, holder) from error
        # The contents of the file are for people; the lock holds without them.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, this_process().encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def holder_of(folder: Path) -> Holder | None:
    """Return the process that currently has the session in `folder` locked."""
    try:
        fd = os.open(folder / _FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        named = parse_holder(os.pread(fd, _MOST_BYTES, 0))
        holder = Holder(int(named["pid"]), str(named["host"]))
        # Probing a lock means holding it for a moment; a dead process's lock needs no probing.
        if holder.host == socket.gethostname():
            with suppress(PermissionError):
                os.kill(holder.pid, 0)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return holder
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    finally:
        os.close(fd)
    return None


def holders_of(locks: Path, session_ids: Iterable[str]) -> dict[str, Holder]:
    """Return the current holder of each session whose folder in `locks` is locked."""
    probed = ((each, holder_of(locks / each)) for each in session_ids)
    return {session_id: holder for session_id, holder in probed if holder is not None}


def this_process() -> str:
    """Return this process as the holder of a lock, in JSON."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})


def parse_holder(text: str | bytes | None) -> dict[str, Any]:
    """Return what was noted about the holder of a lock; empty if that can't be read."""
    try:
        holder = json.loads(text or "{}")
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def in_use(session_id: str, holder: Mapping[str, Any]) -> UsageError:
    """Return the error for a session that another process writes to. It may not have noted its
    details yet."""
    is_known = holder.keys() >= {"pid", "host", "since"}
    who = "process {pid} on {host} since {since}" if is_known else "another process"
    who = who.format_map(holder)
    return UsageError(
        f"session {session_id} is in use by {who}",
        hint=f"to see it: agent sessions show {session_id}; to work on a copy: agent fork "
        f"{session_id}; to send it a message: agent tell {session_id}",
    )
