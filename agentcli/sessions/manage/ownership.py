"""Who owns a session. Files that another user owns or could have changed are not trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.workspace.private import WRITABLE_BY_OTHERS


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
