"""A copy of this process that does one thing, and tells of it through a pipe.

It begins with all that is loaded and known here, which takes a hundredth of a new start. Only for
the main thread, and before there are others: a lock that one of those holds stays locked in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_FAILED = 70


@dataclass(eq=False)
class Forked:
    """`output` is what it prints, to be read without waiting."""

    pid: int
    output: int
    exit_code: int | None = None
    """Negative: the signal that ended it; None: it was not seen to end yet."""

    def send(self, number: signal.Signals) -> None:
        """Nothing where it has ended."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._wait(os.WNOHANG)

    def reap(self) -> None:
        """Wait for its end."""
        self._wait(0)

    def close(self) -> None:
        os.close(self.output)

    def _wait(self, options: int) -> int | None:
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, options)
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code


def fork(body: Callable[[], int]) -> Forked:
    """Runs `body`, whose result is the exit code, in a session of its own, so that signals of the
    terminal reach us alone; stdout is the pipe, stdin and stderr are nothing. It gets SIGTERM when
    we are gone. The caller is not to be interrupted meanwhile."""
    reader, writer = os.pipe()
    above = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        os.set_blocking(reader, False)
        return Forked(pid, reader)
    code = _FAILED
    try:
        _part(above, writer)
        code = body()
        sys.stdout.flush()
    finally:
        os._exit(code)


def _part(above: int, writer: int) -> None:
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != above:
        os._exit(128 + signal.SIGTERM)
    nothing = os.open(os.devnull, os.O_RDWR)
    for source, target in ((nothing, 0), (writer, 1), (nothing, 2)):
        os.dup2(source, target)
