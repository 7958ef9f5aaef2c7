"""The folder of a session: whose it is, how it is created, which databases hold its events, and the
errors of a disk that is full or can't be written.

Files that another user owns or could have changed are not trusted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.workspace.private import (
    WRITABLE_BY_OTHERS,
    read_private,
    replace_atomically,
    sync_names_above,
)

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_WRITING = (*NO_ROOM, errno.EROFS, errno.EIO, errno.EFBIG)
_PLACE = "store"
_LONGEST_PLACE = 2_000


def require_own(folder: Path) -> None:
    """Raise SessionError unless this user owns `folder` and its events and nobody else can write to
    them."""
    for path in (folder, folder / "events"):
        try:
            status = path.lstat()
        except OSError as error:
            raise SessionError(f"there is no session in {folder}: {error.strerror}") from error
        if not stat.S_ISDIR(status.st_mode):
            raise SessionError(f"{path} is not a folder", hint="a session can't be a symlink")
        if status.st_uid != os.geteuid():
            raise SessionError(
                f"{path} belongs to user {status.st_uid}, not to you ({os.geteuid()})",
                hint=f"to use what is in it: agent sessions import {folder}",
            )
        if status.st_mode & WRITABLE_BY_OTHERS:
            raise SessionError(
                f"{path} can be written by other users, so what it says can't be trusted",
                hint=f"if it is as you left it: chmod go-w {path}",
            )


def require_safe_place(folder: Path) -> None:
    """Raise SessionError where others could add sessions of theirs or rename the user's. The folder
    may be a link, for example to another disk."""
    try:
        status = folder.stat()
    except OSError as error:
        raise SessionError(f"{folder} can't be checked: {error.strerror}") from error
    if not trusted(status):
        place = folder.resolve()
        raise SessionError(
            f"sessions can't be kept in {place}: it belongs to or can be written by other users",
            hint=f"if it is yours: chmod go-w {place}; or set AGENT_HOME to another folder",
        )


def trusted(status: os.stat_result) -> bool:
    """Whether this user owns something and nobody else can write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS


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


def make_folder(folder: Path, *, anew: bool = True) -> None:
    """Create the folder of a session. Raises SessionError when it can't be created, or when it
    exists and `anew` is set."""
    try:
        is_first = not folder.parent.exists()
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_safe_place(folder.parent)
        if is_first:
            # The home is new, too, and whoever created it did not sync its name.
            sync_names_above(folder.parents[1])
        folder.mkdir(mode=0o700, exist_ok=not anew)
    except OSError as error:
        raise unwritable(folder.parent, error) from error


def keep_elsewhere(folder: Path, place: str) -> None:
    """Note that the session's events are in `place`, for people and for other settings. Raises
    OSError."""
    _note_places(folder, [place, *noted_places(folder)])


def forget_place(folder: Path, place: str) -> None:
    """Note that the session is no longer in `place`. Raises OSError."""
    if place in (places := noted_places(folder)):
        _note_places(folder, [each for each in places if each != place])


def noted_places(folder: Path) -> list[str]:
    """Return the databases that the session is in, the newest first, as far as this home knows."""
    noted = read_private(folder / _PLACE, _LONGEST_PLACE)
    return (noted or b"").decode(errors="replace").split("\n")[:-1]


def _note_places(folder: Path, places: Sequence[str]) -> None:
    lines = "".join(f"{place}\n" for place in dict.fromkeys(places))
    if lines:
        replace_atomically(folder / _PLACE, lines.encode())
    else:
        (folder / _PLACE).unlink(missing_ok=True)


def kept_elsewhere(folder: Path) -> str | None:
    """Return the noted place of a session's events if its folder has none; otherwise, or if nothing
    is noted, None."""
    if (folder / "events").exists():
        return None
    return next(iter(noted_places(folder)), None)


def was_opened_here(folder: Path) -> bool:
    """Whether a session was created or opened in this home before, so that its files are there."""
    return (folder / "events").exists() or kept_elsewhere(folder) is not None
