"""Limits how long a judgement may take."""

from __future__ import annotations

import time


class TimeLimit:
    """A limit in seconds of this thread's processor time from creation on. Other threads and
    processes don't count, so that a busy machine changes no judgement."""

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds

    def is_over(self) -> bool:
        return time.thread_time() > self._end
