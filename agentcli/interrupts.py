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
_CHECK_EVERY_S = 0.2
_shield_depth = 0
_waiting: TurnInterrupted | None = None
_ending = False
_countdown: Countdown | None = None
"""The one that interrupts now."""
_around_stops: list[tuple[Callable[[], None], Callable[[], None]]] = []
_before_end: list[Callable[[], None]] = []


_told_to_stop: dict[threading.Thread, TurnInterrupted] = {}
_shields_of_threads: dict[threading.Thread, int] = {}
"""How many are up in each thread but the main one."""


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
def hearing_ctrl_c() -> Iterator[bool]:
    """In a program that leaves Ctrl-C to Python: within it Ctrl-C raises TurnInterrupted, as after
    `install`. Gives whether that is so: nothing changes on another thread than the main one, or
    where the program hears signals itself."""
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


def take_back(thread: threading.Thread) -> None:
    """Forget a `stop_thread` that came too late for what it was meant for."""
    _told_to_stop.pop(thread, None)


@contextmanager
def stoppable_thread() -> Iterator[threading.Thread]:
    """This one; a wish to stop it that comes too late for the block is forgotten."""
    thread = threading.current_thread()
    try:
        yield thread
    finally:
        take_back(thread)


def check() -> None:
    """Called by what waits or goes round: raises what stops this thread, if it was told to and no
    shield is up in it. The main thread is interrupted wherever it is."""
    if not _told_to_stop:
        return
    thread = threading.current_thread()
    if thread not in _shields_of_threads and (reason := _told_to_stop.pop(thread, None)):
        raise reason


def longest_wait_s() -> float | None:
    """How long this thread may wait before it calls `check` again; None: as long as it likes."""
    is_main = threading.current_thread() is threading.main_thread()
    return None if is_main else _CHECK_EVERY_S


@contextmanager
def _shield_of_thread(thread: threading.Thread) -> Iterator[None]:
    """What comes meanwhile is raised by the next `check` after it."""
    depth = _shields_of_threads.get(thread, 0)
    _shields_of_threads[thread] = depth + 1
    try:
        yield
    finally:
        if depth:
            _shields_of_threads[thread] = depth
        else:
            del _shields_of_threads[thread]


@contextmanager
def shield() -> Iterator[None]:
    """Put interrupts off while what is on disk and what is in memory must change together."""
    global _shield_depth, _waiting
    thread = threading.current_thread()
    if thread is not threading.main_thread():
        with _shield_of_thread(thread):
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
        """Within it OutOfTime is raised, as for a signal, when only `reserve_s` seconds are left;
        on another thread than the main one by `check`."""
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
