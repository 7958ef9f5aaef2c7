"""Folders and files: where the user is, and those named on the command line."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcli.app.configuration.places import resolve_workspace
from agentcli.errors import SessionError, UsageError
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.ui.text import printable
from agentcli.workspace.private import replacing, writable_paths

_CHOOSE_ANOTHER = "choose another name, or name what the link leads to"
_MOST_LINKS = 40


def home() -> Path:
    return state_home(user_environ())


def here() -> Path:
    return resolve_workspace(None)


def tilde_path(path: Path | str) -> str:
    """Return `path` with `~` for the user's home, safe to show."""
    home, text = user_environ().get("HOME", ""), str(path)
    if home and (text == home or text.startswith(f"{home}/")):
        text = f"~{text.removeprefix(home)}"
    return printable(text, multiline=False)


def named_file(path: Path, flag: str = "") -> Path:
    """Return `path` as an absolute path without `~`. Links are kept: it may be `/dev/stdout`."""
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"{flag} {path}: {error}".strip()) from error


def named_folder(path: Path, flag: str) -> Path:
    """Return `path` without `~`, `..` and links, so that it keeps naming the same folder later.
    Raises UsageError, also for a link that `resolved_target` refuses."""
    try:
        return resolved_target(named_file(path, flag))
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error}") from error


def resolved_target(path: Path) -> Path:
    """Return where `path`, which is to be written, really is. Raises UsageError for a link on the
    way in a place that commands can write: one of them may have left it, to lead the agent to what
    only the user may write. Raises OSError for a loop of links."""
    written = [Path(place) for place in writable_paths(home()) if place != "/"]
    place, waiting, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    while waiting:
        part = waiting.pop()
        place = place.parent if part == ".." else place / part
        if not place.is_symlink():
            continue
        if any(map(place.parent.is_relative_to, written)):
            raise UsageError(f"{tilde_path(path)} leads through a link", hint=_CHOOSE_ANOTHER)
        if (links := links + 1) > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        inner = place.readlink()
        place = Path("/") if inner.is_absolute() else place.parent
        waiting += reversed(inner.parts[inner.is_absolute() :])
    return place


@contextmanager
def _parent(path: Path) -> Iterator[int]:
    """Yield the folder that holds the resolved `path`, opened without following any link, as
    commands may still be at work. Raises OSError."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open("/", flags)
    try:
        for part in path.parent.parts[1:]:
            above = folder
            folder = os.open(part, flags, dir_fd=above)
            os.close(above)
        yield folder
    finally:
        os.close(folder)


def write_to_named(path: Path, text: str) -> None:
    """Write the whole file that the user named, which may be a device. Raises UsageError as
    `resolved_target` does, OSError."""
    encoded = text.encode("utf-8", "replace")
    if _is_special(path):
        _write_to_special(path, [encoded])
        return
    real = resolved_target(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with _parent(real) as folder:
        handle = os.open(real.name, flags, 0o666, dir_fd=folder)
    with open(handle, "wb") as file:
        file.write(encoded)


def write_atomically(path: Path, pieces: Iterable[str]) -> None:
    """Replace the file `path` once everything is written. Raises SessionError, UsageError as
    `resolved_target` does."""
    encoded = (piece.encode("utf-8", "replace") for piece in pieces)
    try:
        if _is_special(path):
            _write_to_special(path, encoded)
            return
        real = resolved_target(path)
        temporary = f".{real.name}.{os.getpid()}.new"
        with _parent(real) as folder, replacing(real.name, temporary, folder=folder) as file:
            file.writelines(encoded)
    except OSError as error:
        raise SessionError(f"{path} can't be written: {error.strerror}") from error


def _is_special(path: Path) -> bool:
    """Return whether `path` is a device or a pipe. Replacing it would remove it for everybody."""
    return path.exists() and not path.is_file()


def _write_to_special(path: Path, parts: Iterable[bytes]) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CLOEXEC), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EAGAIN, "it has just become another file")
        file.writelines(parts)
