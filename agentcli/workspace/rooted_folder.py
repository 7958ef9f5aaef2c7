"""Opens what is below a folder, one path part at a time and never through a symlink."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_DEEPEST = 1_000
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootedFolder:
    """Opens paths relative to `top`. Raises OSError."""

    def __init__(self, top: Path) -> None:
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: tuple[bytes, int] | None = None

    def close(self) -> None:
        self.forget()
        os.close(self._top)

    def place(self, path: bytes) -> tuple[int, bytes]:
        """Return the parent folder of `path`, open until another is requested, and the last part of
        `path`."""
        above, _, name = path.rpartition(b"/")
        if name in (b"", b".", b"..") or path.startswith(b"/"):
            raise _outside()
        return self.folder(above), name

    def folder(self, path: bytes) -> int:
        """Return the folder at `path`, open until another is requested."""
        if self._open is None or self._open[0] != path:
            opened = self._open_folder(path)
            self.forget()
            self._open = (path, opened)
        return self._open[1]

    def inner(self, name: bytes) -> int:
        """Return the folder `name` in the folder that was requested last, in its place."""
        assert self._open is not None
        path = self._open[0] + b"/" + name if self._open[0] else name
        opened = self._enter(self._open[1], name, path)
        self.forget()
        self._open = (path, opened)
        return opened

    def open(self, path: bytes, flags: int) -> int:
        folder, name = self.place(path)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)

    def forget(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _open_folder(self, path: bytes) -> int:
        folder = os.dup(self._top)
        opened = b""
        for name in path.split(b"/") if path else []:
            if name in (b"", b".", b".."):
                os.close(folder)
                raise _outside()
            opened = opened + b"/" + name if opened else name
            above = folder
            try:
                folder = self._enter(above, name, opened)
            finally:
                os.close(above)
        return folder

    def _enter(self, above: int, name: bytes, path: bytes) -> int:
        """Open the folder `name` in the open folder `above`; `path` is where `name` is below
        `top`. Raises NotADirectoryError for a symlink too."""
        try:
            return os.open(name, _OPEN_FOLDER, dir_fd=above)
        except OSError as error:
            if error.errno == errno.ELOOP:  # what macOS says of a symlink
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
            raise


def walk(
    top: Path, on_error: Callable[[OSError], object] = lambda error: None
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder, and the names of the folders and of everything else in it, as `os.walk`
    does: the caller may remove folders, and links to folders are among them, but not followed.

    Commands may nest folders more deeply than the stack or a path allows. Those below
    `_DEEPEST` others are left out.
    """
    try:
        tree = RootedFolder(top)
    except OSError as error:
        on_error(error)
        return
    with contextlib.closing(tree):
        waiting, opened = [("", 0)], ""
        while waiting:
            below, depth = waiting.pop()
            above, _, name = below.rpartition("/")
            try:
                if below and above == opened:
                    handle = tree.inner(os.fsencode(name))
                else:
                    handle = tree.folder(os.fsencode(below))
                opened = below
                folders, links, others = _listed(handle)
            except OSError as error:
                on_error(error)
                continue
            yield top / below, folders, others
            if depth < _DEEPEST:
                inner = (name for name in reversed(folders) if name not in links)
                waiting += [(f"{below}/{name}" if below else name, depth + 1) for name in inner]


def _listed(folder: int) -> tuple[list[str], set[str], list[str]]:
    """Return what is in a folder: folders and links to some, those links, everything else."""
    folders: list[str] = []
    links: set[str] = set()
    others: list[str] = []
    with os.scandir(folder) as found:
        for entry in found:
            is_folder = False
            # A link may lead to what can't be looked at.
            with contextlib.suppress(OSError):
                is_folder = entry.is_dir()
            (folders if is_folder else others).append(entry.name)
            if entry.is_symlink():
                links.add(entry.name)
    return folders, links, others


def _outside() -> OSError:
    return OSError(0, "it is outside the workspace")
