"""The kernel's notifications about changes in folders (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct("iIII")
_READ_BYTES = 65_536
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW = 0x4000
_ONLY_FOLDERS, _NO_LINKS = 0x1000000, 0x2000000
_CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_OF_ITSELF = _DELETE_SELF | _MOVE_SELF


class Event(NamedTuple):
    """`watch` is the number of the folder's watch, or -1 if events were lost. `name` is the entry
    that changed, or "" for the folder itself."""

    watch: int
    name: str


class Inotify:
    """Watches folders. Raises OSError if the kernel has no inotify or too many are in use."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            start = self._libc.inotify_init1
        except AttributeError as error:
            raise OSError("there is no inotify here") from error
        self.descriptor = start(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify is not available")

    def add(self, folder: str) -> int:
        """Watch the contents of `folder` and the folder itself being moved or deleted; return the
        number of the watch. Raises OSError."""
        mask = _CHANGES | _OF_ITSELF | _ONLY_FOLDERS | _NO_LINKS
        watch = self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        if watch < 0:
            raise OSError(ctypes.get_errno(), "the folder can't be watched", folder)
        return int(watch)

    def read(self) -> Iterator[Event]:
        """Yield the events so far, without waiting."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.descriptor, _READ_BYTES)
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
                at += length
                yield Event(-1 if mask & _OVERFLOW else watch, name)

    def close(self) -> None:
        os.close(self.descriptor)
