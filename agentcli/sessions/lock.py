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
from agentcli.sessions.write_faults import writing_to


class SessionLock:
    """On the session in `folder`, until it is released or the block ends. Raises UsageError, naming
    the holder, when another process writes to the session, SessionError when the file can't be
    opened to be locked.

    The kernel frees it however its holder ends, so a file that a killed process left locks nobody
    out.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "session.lock"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with writing_to(path):
                self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise SessionError(f"{path} can't be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = read_holder(self._fd)
            os.close(self._fd)
            # Its holder may not have come to writing who it is.
            named = holder.keys() >= {"pid", "host", "since"}
            who = "process {pid} on {host} since {since}" if named else "another process"
            raise UsageError(
                f"session {folder.name} is in use by {who.format_map(holder)}",
                hint=f"agent sessions show {folder.name} shows it; agent fork "
                f"{folder.name} works on a copy; agent tell {folder.name} talks to it",
            ) from error
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


def read_holder(fd: int) -> dict[str, Any]:
    """What the file of a lock says of the process that has it."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}
