"""Turns signals and the time limit of a run into one exception, raised where it does no harm."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from agentcli.errors import TurnInterrupted

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
_CHECK_EVERY_S = 0.2
_waiting: TurnInterrupted | None = None
_ending = False
_countdown: Countdown | None = None
"""The countdown that may interrupt now, if any."""
_around_stops: list[tuple[Callable[[], None], Callable[[], None]]] = []
_before_end: list[Callable[[], None]] = []


_told_to_stop: dict[threading.Thread, TurnInterrupted] = {}


class _Shields(threading.local):
    """How many shields are up in this thread."""

    depth = 0


_shields = _Shields()


class OutOfTime(TurnInterrupted):
    """The time limit of the run is reached. Nobody asked for the stop; the run exits with 6."""

    def __init__(self) -> None:
        super().__init__("out of time", 6)
        self.model_message = "stopped: the time of this run is over"


def install() -> None:
    """Make SIGINT, SIGTERM and SIGHUP raise TurnInterrupted in the main thread from now on. SIGQUIT
    still ends the process, but leaves the terminal in order."""
    for number in _EXIT_CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL:
        signal.signal(signal.SIGQUIT, _on_quit)


def mark_outcome_decided() -> None:
    """Declare the outcome decided: one more signal has no effect, a second ends the process."""
    global _ending
    _ending = True


@contextmanager
def ctrl_c_interrupts() -> Iterator[bool]:
    """Make Ctrl-C raise TurnInterrupted within the block, as after `install`, for programs that
    leave Ctrl-C to Python. Yields whether it does: nothing changes on threads other than the main
    one, or where the program handles SIGINT itself."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield False
        return
    signal.signal(signal.SIGINT, _on_signal)
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interruptible_after_end() -> Iterator[None]:
    """Let signals interrupt within the block though the outcome is decided, as it may take long."""
    global _ending
    before, _ending = _ending, False
    try:
        yield
    finally:
        _ending = before


def _on_signal(number: int, frame: FrameType | None) -> None:
    code = _EXIT_CODES[signal.Signals(number)]
    reason = TurnInterrupted("interrupted" if code == 130 else "terminated", code)
    if _waiting is not None and not isinstance(_waiting, OutOfTime):
        # The second request while the first still waits. What is on disk is complete.
        _leave_terminal()
        os._exit(code)
    interrupt(reason)


def _on_quit(number: int, frame: FrameType | None) -> None:
    _leave_terminal()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _leave_terminal() -> None:
    for leave in reversed(_before_end):
        leave()


def interrupt(reason: TurnInterrupted) -> None:
    """Raise `reason` now, or at the end of the current shield. Main thread only."""
    global _waiting
    if _countdown is not None:
        # One interrupt is enough: a second would break off the handling of the first.
        _countdown.disarm()
    if _shields.depth or _ending:
        if _waiting is None or isinstance(_waiting, OutOfTime):
            _waiting = reason
        return
    raise reason


def stop_thread(thread: threading.Thread, reason: TurnInterrupted) -> None:
    """Make `thread`, which is not the main one, raise `reason` at its next call of `check`."""
    _told_to_stop[thread] = reason


def cancel_stop(thread: threading.Thread) -> None:
    """Discard a `stop_thread` that came too late for the work it was meant to stop."""
    _told_to_stop.pop(thread, None)


@contextmanager
def stoppable_thread() -> Iterator[threading.Thread]:
    """Yield the current thread, and discard a stop that comes too late to hit the block."""
    thread = threading.current_thread()
    try:
        yield thread
    finally:
        cancel_stop(thread)


def check() -> None:
    """Raise the stop that was requested for this thread, if any, unless a shield is up in it. Code
    that waits or loops calls this. The main thread needs no check: signals interrupt it
    anywhere."""
    if not _told_to_stop:
        return
    if not _shields.depth and (reason := _told_to_stop.pop(threading.current_thread(), None)):
        raise reason


def longest_wait_s() -> float | None:
    """Return how long this thread may wait before it must call `check` again; None: no limit."""
    is_main = threading.current_thread() is threading.main_thread()
    return None if is_main else _CHECK_EVERY_S


@contextmanager
def shield() -> Iterator[None]:
    """Put interrupts off while the state on disk and the state in memory must change together. On
    threads other than the main one, the next `check` after the block raises them."""
    _shields.depth += 1
    try:
        yield
    finally:
        _shields.depth -= 1
    _raise_waiting()


@contextmanager
def unshielded() -> Iterator[None]:
    """Allow interrupts again in a block inside a shield. Raises one that came in the meantime."""
    depth, _shields.depth = _shields.depth, 0
    try:
        _raise_waiting()
        yield
    finally:
        _shields.depth = depth


def _raise_waiting() -> None:
    """Raise the interrupt that was put off, if this is the main thread and it no longer is."""
    global _waiting
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _waiting is not None and not _shields.depth and not _ending:
        reason, _waiting = _waiting, None
        raise reason


@contextmanager
def before_end(leave: Callable[[], None]) -> Iterator[None]:
    """Call `leave` if SIGQUIT or a second signal ends the process at once within the block. It runs
    in a signal handler, to put the terminal in order. Main thread only."""
    _before_end.append(leave)
    try:
        yield
    finally:
        _before_end.remove(leave)


@contextmanager
def around_stop(leave: Callable[[], None], come_back: Callable[[], None]) -> Iterator[None]:
    """Within the block, have Ctrl-Z call `leave` before the process stops and `come_back` when it
    continues; `leave` is also registered with `before_end`. Both run in a signal handler, on the
    main thread."""
    before = signal.getsignal(signal.SIGTSTP)
    with before_end(leave):
        if before is signal.SIG_IGN:
            yield
            return
        _around_stops.append((leave, come_back))
        signal.signal(signal.SIGTSTP, _on_stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, before)
            _around_stops.remove((leave, come_back))


def _on_stop(number: int, frame: FrameType | None) -> None:
    for leave, _ in reversed(_around_stops):
        leave()
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTSTP)
    # Execution continues here after SIGCONT.
    signal.signal(signal.SIGTSTP, _on_stop)
    for _, come_back in _around_stops:
        come_back()


class Countdown:
    """Seconds of wall clock that a run may take, counted from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._reserve_s = 0.0

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    @contextmanager
    def interrupting(self, reserve_s: float = 0.0) -> Iterator[None]:
        """Raise OutOfTime within the block, like a signal, when only `reserve_s` seconds are left.
        On threads other than the main one, `check` raises it."""
        global _countdown
        if threading.current_thread() is not threading.main_thread():
            with self._stopping_thread(reserve_s):
                yield
            return
        self._reserve_s = reserve_s
        before = signal.signal(signal.SIGALRM, _on_alarm)
        _countdown = self
        try:
            self._arm()
            yield
        finally:
            self.disarm()
            _forget_out_of_time()
            signal.signal(signal.SIGALRM, before or signal.SIG_DFL)

    @contextmanager
    def _stopping_thread(self, reserve_s: float) -> Iterator[None]:
        thread = threading.current_thread()
        seconds = max(self.left_s - reserve_s, 0.0)
        timer = threading.Timer(seconds, stop_thread, (thread, OutOfTime()))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if isinstance(_told_to_stop.get(thread), OutOfTime):
                del _told_to_stop[thread]

    def disarm(self) -> None:
        """Stop interrupting."""
        global _countdown
        _countdown = None
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _arm(self) -> None:
        # setitimer takes 0 as "no timer".
        signal.setitimer(signal.ITIMER_REAL, max(self.left_s - self._reserve_s, 0.001))

    def on_alarm(self) -> None:
        """Interrupt if the time is up. If a clock change set the alarm off early, arm it again."""
        if self.left_s > self._reserve_s:
            self._arm()
        else:
            interrupt(OutOfTime())

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_REAL, 0)
        since = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - since
            if _countdown is self:
                self._arm()


@contextmanager
def pause_countdown() -> Iterator[None]:
    """Don't count the time of the block, in which a user is asked something, as time of the run.
    On other threads than the main one the clock runs on."""
    if _countdown is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    with _countdown._stopped():
        yield


def _on_alarm(number: int, frame: FrameType | None) -> None:
    if _countdown is not None:
        _countdown.on_alarm()


def _forget_out_of_time() -> None:
    global _waiting
    if isinstance(_waiting, OutOfTime):
        _waiting = None
