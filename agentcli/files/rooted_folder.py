"""Opens what is below a folder, one path part at a time and never through a symlink."""

from __future__ import annotations

import errno
import os
from pathlib import Path

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
        if self._open is None or self._open[0] != above:
            self.forget()
            self._open = (above, self._open_folder(above))
        return self._open[1], name

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


def _outside() -> OSError:
    return OSError(0, "it is outside the workspace")
