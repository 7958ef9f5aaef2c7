"""Messages about a disk that is full or can't be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcli.errors import SessionError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_WRITING = (*NO_ROOM, errno.EROFS, errno.EIO, errno.EFBIG)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block, which writes to `folder`, into the error that `unwritable`
    describes."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_WRITING:
            raise
        raise unwritable(folder, error) from error


def unwritable(path: Path, error: OSError) -> SessionError:
    """Return the error for a session that can't be written at `path`, which need not exist: how
    much room there is, and what to do."""
    known = next(folder for folder in (path, *path.parents) if folder.exists())
    try:
        status = os.statvfs(known)
        free = f"{status.f_bavail * status.f_frsize // 1024:,} kB free"
        if status.f_files and not status.f_favail:
            free += ", but no room for one more file"
    except OSError:
        free = "free space unknown"
    return SessionError(
        f"the session can't be written: {error.strerror} ({path}, {free})",
        hint="free some space or fix the permissions there, or set AGENT_HOME to another folder "
        "for new sessions; nothing recorded before is lost",
    )
