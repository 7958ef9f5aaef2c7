"""Runs one function in a forked copy of this process, which reports through a pipe.

The copy starts with everything already loaded here, in a hundredth of the time of a new process.
Only for the main thread, before there are others: a lock held by another thread would stay locked
in the copy.
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
    """A forked process. `output` is a non-blocking pipe with what it prints."""

    pid: int
    output: int
    exit_code: int | None = None
    """Negative: the signal that ended it. None: it has not been seen to end yet."""

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; do nothing if it has ended."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Return its exit code, or None if it has not ended."""
        return self._wait(os.WNOHANG)

    def reap(self) -> None:
        """Wait until it ends."""
        self._wait(0)

    def close(self) -> None:
        os.close(self.output)

    def _wait(self, options: int) -> int | None:
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, options)
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code


def fork(body: Callable[[], int]) -> Forked:
    """Run `body`, whose result is the exit code, in a forked process.

    The process has a session of its own, so that signals of the terminal reach us alone. Its stdout
    is the pipe; stdin and stderr are /dev/null. It gets SIGTERM when we end. The caller must not be
    interrupted during this call.
    """
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
