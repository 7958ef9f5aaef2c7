"""Signals turned into one exception, raised only where the program can bear it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from agentcli.errors import TurnInterrupted

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
_shield_depth = 0
_waiting: TurnInterrupted | None = None
_ending = False


def install() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP raise TurnInterrupted in the main thread."""
    for number in _EXIT_CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)


def end() -> None:
    """The outcome is decided: a signal changes nothing any more, a second one ends at once."""
    global _ending
    _ending = True


def _on_signal(number: int, frame: FrameType | None) -> None:
    code = _EXIT_CODES[signal.Signals(number)]
    reason = TurnInterrupted("interrupted" if code == 130 else "terminated", code)
    if _waiting is not None:
        # Asked twice while something does not come to an end; what is on disk is whole.
        os._exit(code)
    interrupt(reason)


def interrupt(reason: TurnInterrupted) -> None:
    """Raise `reason` now, or at the end of the shield that is up. Main thread only."""
    global _waiting
    if _shield_depth or _ending:
        _waiting = _waiting or reason
        return
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
