"""One writer per session: an advisory lock that lasts no longer than the process holding it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from agentcli.errors import SessionError, UsageError
from agentcli.sessions.store import Holder, Lock
from agentcli.sessions.write_faults import writing_to

_FILE = "session.lock"


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
            holder = _read_holder(self._fd)
            os.close(self._fd)
            # The holder may not have written its details yet.
            named = holder.keys() >= {"pid", "host", "since"}
            who = "process {pid} on {host} since {since}" if named else "another process"
            raise in_use(folder.name, who.format_map(holder)) from error
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # The contents of the file are for people; the lock holds without them.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(holder).encode(), 0)

    def release(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def holder_of(folder: Path) -> Holder | None:
    """Return the process that currently has the session in `folder` locked."""
    try:
        fd = os.open(folder / _FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        named = _read_holder(fd)
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


def in_use(session_id: str, who: str) -> UsageError:
    """Return the error for a session that another process, `who`, writes to."""
    return UsageError(
        f"session {session_id} is in use by {who}",
        hint=f"to see it: agent sessions show {session_id}; to work on a copy: agent fork "
        f"{session_id}; to send it a message: agent tell {session_id}",
    )


def _read_holder(fd: int) -> dict[str, Any]:
    """Return what the lock file says about the process that holds the lock."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
