"""One writer per session: an advisory lock that lasts no longer than the process holding it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError, UsageError
from agentcli.sessions.store import Holder, Lock
from agentcli.sessions.write_faults import writing_to

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
