"""The kernel's notifications about changes in folders that have a baseline (inotify, Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import stat
import struct
import threading
from collections.abc import Callable, Iterable, Iterator

from agentcli.git.baseline import Baseline
from agentcli.workspace.scope import (
    ASIDE,
    DATA_FOLDERS,
    INFO,
    MODULES,
    WORKTREES,
    is_routine_name,
)

_HEADER = struct.Struct("iIII")
_READ_BYTES = 65_536
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW = 0x4000
_ONLY_FOLDERS, _NO_LINKS = 0x1000000, 0x2000000
_CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_MASK = _CHANGES | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS | _NO_LINKS
_PLACES = ("", "hooks", INFO, MODULES, WORKTREES)

log = logging.getLogger(__name__)


class Notifications(threading.Thread):
    """Calls `on_change` with the baselines whose folders changed, or with None if notifications
    were lost. Raises OSError if the kernel has no inotify or too many are in use."""

    def __init__(self, on_change: Callable[[set[Baseline] | None], None]) -> None:
        super().__init__(name="git-watch", daemon=True)
        self._on_change = on_change
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            start = self._libc.inotify_init1
        except AttributeError as error:
            raise OSError("there is no inotify here") from error
        self._inotify = start(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify < 0:
            raise OSError(ctypes.get_errno(), "inotify is not available")
        self._of: dict[int, list[tuple[Baseline, str]]] = {}
        self._wake = os.pipe()

    def watch(self, baselines: Iterable[Baseline], *, all_of_them: bool) -> None:
        """Watch the folders of `baselines`: only git folders, unless `all_of_them`."""
        for baseline in baselines:
            if baseline.names is None or all_of_them:
                for place in _PLACES if baseline.names is None else ("",):
                    folder = os.fsencode(baseline.path / place)
                    number = self._libc.inotify_add_watch(self._inotify, folder, _MASK)
                    if number >= 0:
                        entries = self._of.setdefault(number, [])
                        if (baseline, place) not in entries:
                            entries.append((baseline, place))

    def run(self) -> None:
        try:
            poll = select.poll()
            poll.register(self._inotify, select.POLLIN)
            poll.register(self._wake[0], select.POLLIN)
            while all(descriptor != self._wake[0] for descriptor, _ in poll.poll()):
                self._report()
        except OSError:
            log.exception("git folders are no longer watched, but looked through after commands")

    def stop(self) -> None:
        os.write(self._wake[1], b"x")
        self.join()
        for descriptor in (self._inotify, *self._wake):
            os.close(descriptor)

    def _report(self) -> None:
        touched: set[Baseline] = set()
        for number, name in self._events():
            if number < 0:
                self._on_change(None)
                return
            for baseline, place in self._of.get(number, ()):
                if _matters(baseline, place, name):
                    touched.add(baseline)
        if touched:
            self._on_change(touched)
            self.watch(touched, all_of_them=True)

    def _events(self) -> Iterator[tuple[int, str]]:
        """Yield the events so far, without waiting: the number of the watch, or -1 if events were
        lost, and the entry that changed, "" for the folder itself."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._inotify, _READ_BYTES)
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
                at += length
                yield -1 if mask & _OVERFLOW else watch, name


def _matters(baseline: Baseline, place: str, name: str) -> bool:
    if baseline.names is not None:
        return name in baseline.names
    if place or not name:
        return not name.startswith(ASIDE)
    path = baseline.path / name
    if name in DATA_FOLDERS:
        return path.is_symlink()
    if name in (INFO, MODULES, WORKTREES) or not is_routine_name(name):
        return True
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
