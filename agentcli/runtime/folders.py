"""Files and folders that are for our user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcli.runtime.sandbox import Sandbox


def private_folder(parent: Path, name: str) -> Path:
    """Raises FileExistsError if it is there already."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = parent / name
    folder.mkdir(mode=0o700)
    return folder


def write_private(path: Path, data: bytes) -> Path:
    """A new file in place of what is there: commands may have put a link there. Raises OSError."""
    path.unlink(missing_ok=True)
    with open(_open_new(path), "wb") as file:
        file.write(data)
    return path


def read_private(path: Path, limit: int = 1 << 16) -> bytes | None:
    """What a command has written there, at most `limit` bytes; None unless it is a file that is
    no link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def reserve(path: Path) -> Path:
    """Creates `path` empty. Raises FileExistsError if something is there."""
    os.close(_open_new(path))
    return path


def _open_new(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def existing_folder(folder: str, sandbox: Sandbox | None = None) -> str:
    """`folder`, as commands in the sandbox see it, or the nearest one above it if it is gone."""
    path = Path(folder)
    for place in (path, *path.parents):
        real = place if sandbox is None else sandbox.real_path(str(place))
        if real.is_dir():
            return str(place)
    return "/"
