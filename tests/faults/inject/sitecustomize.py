"""Breaks a program from outside, at a chosen write to files below a folder.

Python imports this module at its start when the folder it is in is on PYTHONPATH; `tests.preloaded`
does before it becomes the program. `AGENT_FAULT` says what to do, in JSON: `root` (files below it
count), `trace` (a file that gets a line for each write boundary), `at` (the number of a boundary,
from 0) and `kind`:

- `kill-before`, `kill-after`: SIGKILL on that side of the boundary; `tear`: in the middle of it
- `SIGTERM`, `SIGINT`: that signal, right before it
- `ENOSPC`, `EIO`, `EROFS`: from that boundary on, all that such a disk refuses fails so
- `clock`: from that boundary on, the wall clock is off by `shift_s` seconds

With `database` each statement that writes to one, and each commit, is a boundary too; what a disk
refuses is then refused by the database.

Without `unnamed` the file system has no unnamed files, as over a network.
"""

from __future__ import annotations

import builtins
import datetime
import errno
import io
import itertools
import json
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_DESTINATION = {"link": ("dst", 1), "rename": ("dst", 1), "replace": ("dst", 1)}
_PATH_FIRST = ("mkdir", "mkfifo", "unlink", "remove", "rmdir", "truncate")
_FD_FIRST = ("write", "pwrite", "fsync", "fdatasync", "ftruncate", "posix_fallocate")
_NEEDS_ROOM = {
    "open",
    "open_unnamed",
    "write",
    "pwrite",
    "posix_fallocate",
    "mkdir",
    "mkfifo",
    "link",
}
_real = {name: getattr(os, name) for name in ("open", "write", "readlink", "fstat", "kill")}


class _Fault:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._root = plan["root"].rstrip("/") + "/"
        self._at = plan["at"]
        self._kind = plan["kind"]
        self._shift_s = plan["shift_s"]
        self._unnamed = plan["unnamed"]
        self._trace = _real["open"](plan["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = itertools.count()
        self._pid = os.getpid()
        self.skew_s = 0.0

    def concerns(self, path: str | None) -> bool:
        return path is not None and path.startswith(self._root) and os.getpid() == self._pid

    def cross(
        self, name: str, path: str, call: Callable[[], Any], half: Callable[[], Any] | None = None
    ) -> Any:
        """Make the call `name` on `path`, or what the fault makes of it."""
        if name == "open_unnamed" and not self._unnamed:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), path)
        number = next(self._numbers)
        _real["write"](self._trace, f"{number} {name} {path[len(self._root) :]}\n".encode())
        if self._at >= 0 and number >= self._at:
            self._refuse(name, path)
        if number != self._at:
            return call()
        if self._kind.startswith("SIG"):
            _real["kill"](self._pid, signal.Signals[self._kind])
        elif self._kind == "clock":
            self.skew_s = self._shift_s
        elif self._kind == "kill-before":
            self._die()
        elif self._kind == "tear":
            if half is not None:
                half()
            self._die()
        try:
            return call()
        finally:
            if self._kind == "kill-after":
                self._die()

    def _refuse(self, name: str, path: str) -> None:
        if self._kind in ("EIO", "EROFS") or (self._kind == "ENOSPC" and name in _NEEDS_ROOM):
            code = getattr(errno, self._kind)
            raise OSError(code, os.strerror(code), path)

    def _die(self) -> None:
        _real["kill"](self._pid, signal.SIGKILL)
        signal.pause()


def _path_of(target: Any, dir_fd: int | None = None) -> str | None:
    """The absolute path of a file or folder given by path or descriptor; None for other things."""
    try:
        if isinstance(target, int):
            mode = _real["fstat"](target).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return None
            return str(_real["readlink"](f"/proc/self/fd/{target}"))
        path = os.fsdecode(target)
        if dir_fd is not None:
            folder = _real["readlink"](f"/proc/self/fd/{dir_fd}")
            path = os.path.join(folder, path)  # noqa: PTH118
        return os.path.abspath(path)  # noqa: PTH100
    except (OSError, TypeError, ValueError):
        return None


def _wrap(name: str, fault: _Fault) -> None:
    real = getattr(os, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        where, position = _DESTINATION.get(name, ("path", 0))
        target = arguments[position] if len(arguments) > position else options.get(where)
        dir_fd = options.get("dst_dir_fd", options.get("dir_fd"))
        path = _path_of(target, dir_fd)
        if not fault.concerns(path) or (name == "open" and not _creates(*arguments, **options)):
            return real(*arguments, **options)
        half = None
        if name in ("write", "pwrite"):
            fd, data, *rest = arguments
            half = lambda: real(fd, bytes(data)[: len(data) // 2], *rest)  # noqa: E731
        if name == "open" and arguments[1] & os.O_TMPFILE == os.O_TMPFILE:
            called = "open_unnamed"
        else:
            called = name
        return fault.cross(called, str(path), lambda: real(*arguments, **options), half)

    for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if real in group:
            group.add(wrapped)
    setattr(os, name, wrapped)


def _creates(path: Any, flags: int, *rest: Any, **options: Any) -> bool:
    unnamed = flags & os.O_TMPFILE == os.O_TMPFILE
    return bool(flags & (os.O_CREAT | os.O_TRUNC)) or unnamed


def _wrap_files(fault: _Fault) -> None:
    """Python's own files write without `os.write`; give those below the root one that counts."""
    real_open = builtins.open

    class Counted(io.FileIO):
        def write(self, data: Any) -> int:
            plain = super().write
            body = bytes(data)
            path = _path_of(self.fileno())
            if not fault.concerns(path):
                return plain(body)
            halves = body[: len(body) // 2]
            done = fault.cross("write", str(path), lambda: plain(body), lambda: plain(halves))
            return int(done)

    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        path = _path_of(file)
        if not set(mode) & set("wax") or "+" in mode or arguments or not fault.concerns(path):
            return real_open(file, mode, *arguments, **options)
        text = {name: options.pop(name, None) for name in ("encoding", "errors", "newline")}
        options.pop("buffering", None)
        letter = next(iter(set(mode) & set("wax")))
        if isinstance(file, int):
            raw = Counted(file, letter, **options)
        else:
            raw = fault.cross("open", str(path), lambda: Counted(file, letter, **options))
        buffered = io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **text)

    builtins.open = opened
    io.open = opened


def _wrap_database(fault: _Fault, place: str) -> None:
    from sqlalchemy.engine.default import DefaultDialect

    def wrap(name: str) -> None:
        real = getattr(DefaultDialect, name)

        def wrapped(dialect: Any, *arguments: Any) -> Any:
            call = lambda: real(dialect, *arguments)  # noqa: E731
            if name != "do_commit" and not arguments[1].startswith(("INSERT", "UPDATE", "DELETE")):
                return call()
            try:
                return fault.cross(name, place, call)
            except OSError as error:
                raise dialect.dbapi.OperationalError(str(error)) from error

        setattr(DefaultDialect, name, wrapped)

    for name in ("do_execute", "do_executemany", "do_commit"):
        wrap(name)


def _wrap_clock(fault: _Fault) -> None:
    real_time, real_datetime = time.time, datetime.datetime

    class Datetime(real_datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + datetime.timedelta(seconds=fault.skew_s)

    datetime.datetime = Datetime
    time.time = lambda: real_time() + fault.skew_s


def _install(plan: dict[str, Any]) -> None:
    fault = _Fault(plan)
    for name in ("open", *_DESTINATION, *_PATH_FIRST, *_FD_FIRST):
        _wrap(name, fault)
    _wrap_files(fault)
    if plan.get("database"):
        _wrap_database(fault, plan["root"].rstrip("/") + "/database")
    if plan["kind"] == "clock":
        _wrap_clock(fault)


_plan = os.environ.pop("AGENT_FAULT", None)
if _plan is not None:
    _here = str(Path(__file__).parent)
    _paths = os.environ.pop("PYTHONPATH", "").split(":")
    if _kept := [path for path in _paths if path not in ("", _here)]:
        os.environ["PYTHONPATH"] = ":".join(_kept)
    _install(json.loads(_plan))
