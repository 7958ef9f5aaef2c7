"""How long a judgement may take."""

from __future__ import annotations

import time


class TimeLimit:
    """Seconds of processor time, from now on; that of others does not count, so that a busy machine
    changes no judgement."""

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds

    def is_over(self) -> bool:
        return time.thread_time() > self._end
