"""Signals, and the end of the time that a run has, turned into one exception, raised only where the
program can bear it."""

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
_shield_depth = 0
_waiting: TurnInterrupted | None = None
_ending = False
_countdown: Countdown | None = None
"""The one that interrupts now."""
_around_stops: list[tuple[Callable[[], None], Callable[[], None]]] = []
_before_end: list[Callable[[], None]] = []


_told_to_stop: dict[threading.Thread, TurnInterrupted] = {}


class OutOfTime(TurnInterrupted):
    """The time that the run had is over: no person asked for it, and the run exits with 6."""

    def __init__(self) -> None:
        super().__init__("out of time", 6)
        self.told = "stopped: the time of this run is over"


def install() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP raise TurnInterrupted in the main thread; SIGQUIT
    ends the process, as ever, with the terminal in order."""
    for number in _EXIT_CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL:
        signal.signal(signal.SIGQUIT, _on_quit)


def end() -> None:
    """The outcome is decided: a signal changes nothing any more, a second one ends at once."""
    global _ending
    _ending = True


@contextmanager
def heard_again() -> Iterator[None]:
    """Within it a signal interrupts though the outcome is decided: around what may take long."""
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
        # Asked twice while something does not come to an end; what is on disk is whole.
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
    """Raise `reason` now, or at the end of the shield that is up. Main thread only."""
    global _waiting
    if _countdown is not None:
        # One interrupt is enough: another would break off what accounts for this one.
        _countdown.disarm()
    if _shield_depth or _ending:
        if _waiting is None or isinstance(_waiting, OutOfTime):
            _waiting = reason
        return
    raise reason


def stop_thread(thread: threading.Thread, reason: TurnInterrupted) -> None:
    """Have `thread`, which is not the main one, raise `reason` where it next calls `check`."""
    _told_to_stop[thread] = reason


def check() -> None:
    """Called by what waits or goes round: raises what stops this thread, if it was told to. The
    main thread is interrupted wherever it is."""
    if _told_to_stop and (reason := _told_to_stop.pop(threading.current_thread(), None)):
        raise reason


@contextmanager
def shield() -> Iterator[None]:
    """Put interrupts off while what is on disk and what is in memory must change together."""
    global _shield_depth, _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _shield_depth += 1
    try:
        yield
    finally:
        _shield_depth -= 1
    if _waiting is not None and not _shield_depth and not _ending:
        reason, _waiting = _waiting, None
        raise reason


@contextmanager
def unshielded() -> Iterator[None]:
    """Within a shield: what is in this block may be broken off. Raises what came meanwhile."""
    global _shield_depth, _waiting
    depth, _shield_depth = _shield_depth, 0
    try:
        if _waiting is not None and not _ending:
            reason, _waiting = _waiting, None
            raise reason
        yield
    finally:
        _shield_depth = depth


@contextmanager
def before_end(leave: Callable[[], None]) -> Iterator[None]:
    """Within it `leave` is called before SIGQUIT, or a second signal, ends the process at once: in
    a signal handler, to put the terminal in order. Main thread only."""
    _before_end.append(leave)
    try:
        yield
    finally:
        _before_end.remove(leave)


@contextmanager
def around_stop(leave: Callable[[], None], come_back: Callable[[], None]) -> Iterator[None]:
    """Within it Ctrl-Z calls `leave` before the process stops, and `come_back` when it goes on;
    `before_end` holds for `leave` too. Both are called in a signal handler. Main thread only."""
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
    # Here it goes on.
    signal.signal(signal.SIGTSTP, _on_stop)
    for _, come_back in _around_stops:
        come_back()


class Countdown:
    """Seconds of wall clock that a run may take, from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._reserve_s = 0.0

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    @contextmanager
    def interrupting(self, reserve_s: float = 0.0) -> Iterator[None]:
        """Within it OutOfTime is raised, as for a signal, when only `reserve_s` seconds are left.
        On another thread than the main one nothing is raised."""
        global _countdown
        if threading.current_thread() is not threading.main_thread():
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

    def disarm(self) -> None:
        """Interrupt no more."""
        global _countdown
        _countdown = None
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _arm(self) -> None:
        # A timer of 0 would never go off.
        signal.setitimer(signal.ITIMER_REAL, max(self.left_s - self._reserve_s, 0.001))

    def on_alarm(self) -> None:
        """Interrupt if it is time; a clock that was set may have rung too early."""
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
def off_the_clock() -> Iterator[None]:
    """Time that a person takes to answer is not the run's. Only the main thread asks one."""
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
