"""Signals turned into one exception, raised only where the program can bear it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from agentcli.errors import TurnInterrupted

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
_shield_depth = 0
_waiting: TurnInterrupted | None = None


def install() -> None:
    """From now on SIGINT and SIGTERM raise TurnInterrupted in the main thread."""
    for number in _EXIT_CODES:
        signal.signal(number, _on_signal)


def _on_signal(number: int, frame: FrameType | None) -> None:
    name = "interrupted" if number == signal.SIGINT else "terminated"
    interrupt(TurnInterrupted(name, _EXIT_CODES[signal.Signals(number)]))


def interrupt(reason: TurnInterrupted) -> None:
    """Raise `reason` now, or at the end of the shield that is up. Main thread only."""
    global _waiting
    if _shield_depth:
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
    if _waiting is not None and not _shield_depth:
        reason, _waiting = _waiting, None
        raise reason
