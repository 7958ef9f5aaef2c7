"""One writer per session: an advisory lock that ends with the process that holds it."""

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
    """On the session in `folder`, until it is released or the block ends. Raises UsageError, naming
    the holder, when another process writes to the session, SessionError when the file can't be
    opened to be locked.

    The kernel frees it however its holder ends, so a file that a killed process left locks nobody
    out.
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
            # Its holder may not have come to writing who it is.
            named = holder.keys() >= {"pid", "host", "since"}
            who = "process {pid} on {host} since {since}" if named else "another process"
            raise in_use(folder.name, who.format_map(holder)) from error
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # What is in the file is for people; the lock holds without it.
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
    """The process that has the session in `folder` locked at this moment."""
    try:
        fd = os.open(folder / _FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        named = _read_holder(fd)
        holder = Holder(int(named["pid"]), str(named["host"]))
        # To probe a lock is to hold it for a moment; that of a dead process needs no probing.
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
    """What to tell of a session that another process, `who`, writes to."""
    return UsageError(
        f"session {session_id} is in use by {who}",
        hint=f"agent sessions show {session_id} shows it; agent fork {session_id} works on a copy; "
        f"agent tell {session_id} talks to it",
    )


def _read_holder(fd: int) -> dict[str, Any]:
    """What the file of a lock says of the process that has it."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
