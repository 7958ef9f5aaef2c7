"""Forked copies of this process: one that runs a function, and the reaper around a program.

A copy starts with everything already loaded here, in a hundredth of the time of a new process.

The reaper stands between us and a program, and inherits everything the program leaves behind. The
kernel gives an orphan to its nearest ancestor that is a child subreaper. So nothing that the
program starts can leave the reaper's family, whatever session, group or environment it takes. The
reaper kills them all when the program has ended, when it gets SIGTERM and when we are gone. It is
for sandbox layers without a PID namespace; Linux only. It reaps its children itself, so their pids
can't be reused before it kills them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from agentcli.system.processes import children

PATIENCE_S = 2.0
"""How long the reaper tries to kill what is left, however fast that forks."""
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_NAME = b"agent-reaper"
_WOKEN_BY = {signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP}
_ROUND_S = 0.05
_MOST_DESCRIPTORS = 1 << 20
_FAILED = 70


def reaper_installer() -> Callable[[], None] | None:
    """Return what the child must call between fork and exec, or None where there are no reapers.

    Create it before the fork. The call returns in a child of that child, which goes on to become
    the program.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    above = os.getpid()

    def stay_behind() -> None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        program = os.fork()
        if program:
            _reap(libc, program, above)
        # Without its reaper, nobody would end the program.
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return stay_behind


def _reap(libc: ctypes.CDLL, program: int, above: int) -> None:
    """Never returns. Exits like the program, with 128 + the number of a signal that killed it."""
    code = _FAILED
    try:
        gc.disable()
        libc.prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # The terminal hangs up when the program's side of it is closed, not ours.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        os.closerange(0, min(most, _MOST_DESCRIPTORS))
        code = _code_at_end(program, above)
        _end_family()
    finally:
        os._exit(code)


def _code_at_end(program: int, above: int) -> int:
    """Wait until the program has ended or the reaper is asked to end it; return the exit code."""
    asked = False
    while True:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    code = os.waitstatus_to_exitcode(ended[1])
                    return code if code >= 0 else 128 - code
        # If our parent was gone before we asked for a signal at its end, none comes.
        if asked or os.getppid() != above:
            return 128 + signal.SIGKILL
        asked = signal.sigwait(_WOKEN_BY) != signal.SIGCHLD


def _end_family() -> None:
    """Kill our children until none are left; the children they orphan become ours next."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = False
        for pid in _children():
            # What runs as another user (sudo) may not be killed.
            with contextlib.suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
                left = True
        if not left or time.monotonic() >= deadline:
            return
        signal.sigtimedwait({signal.SIGCHLD}, _ROUND_S)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _children() -> list[int]:
    own = os.getpid()
    with contextlib.suppress(OSError), open(f"/proc/{own}/task/{own}/children") as file:
        return [int(pid) for pid in file.read().split()]
    return [process.pid for process in children(own, since=0)]


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
