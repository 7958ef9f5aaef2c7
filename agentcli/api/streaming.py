"""A turn told as it goes, to whoever asks for the next thing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait

from agentcli.agent.ending import TurnResult
from agentcli.events import Event, Progress
from agentcli.sessions.session import Session

Told = Event | Progress
_PAUSE_S = 0.1


class Streams:
    """Those of one session; a subscriber of it. They work on one thread, which lasts as long as the
    session: what a command started there ends with it."""

    def __init__(self, session: Session) -> None:
        self._worker: threading.Thread | None = None
        self._thread = ThreadPoolExecutor(1, "agent", initializer=self._enter)
        self._told: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        self._working: Future[TurnResult] | None = None
        session.subscribe(self)

    def stream(
        self, work: Callable[[], TurnResult], interrupt: Callable[[], bool]
    ) -> Generator[Told, None, TurnResult]:
        """What `work` tells. Raises what it raises; left before its end, it is interrupted."""
        told = self._told = queue.SimpleQueue()
        working = self._working = self._thread.submit(work)
        working.add_done_callback(lambda _: told.put(None))
        try:
            while (what := told.get()) is not None:
                yield what
        finally:
            self.stop(interrupt)
        return working.result()

    def stop(self, interrupt: Callable[[], bool]) -> None:
        """The work that goes on, if there is any; when this returns it is accounted for."""
        is_told = False
        while self._working is not None and not self._working.done():
            # Before it has come to where it can be interrupted it is asked again; once is enough.
            is_told = is_told or interrupt()
            wait([self._working], _PAUSE_S)
        self._working = None

    @property
    def is_open(self) -> bool:
        return self._working is not None

    def is_here(self) -> bool:
        """Whether the caller is what the stream works on."""
        return threading.current_thread() is self._worker

    def _enter(self) -> None:
        self._worker = threading.current_thread()

    def on_event(self, event: Event) -> None:
        self._tell(event)

    def on_progress(self, progress: Progress) -> None:
        self._tell(progress)

    def _tell(self, told: Told) -> None:
        if self._working is not None:
            self._told.put(told)

    def close(self) -> None:
        self._thread.shutdown()
