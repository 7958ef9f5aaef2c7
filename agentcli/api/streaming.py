"""Yields what happens in a turn while it goes on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait

from agentcli.agent.ending import TurnResult
from agentcli.events import Event, Progress
from agentcli.sessions.session import SessionLog

StreamItem = Event | Progress
_PAUSE_S = 0.1


class SessionStreams:
    """The streams of one session, to which it subscribes. Their turns run on one thread, which
    lasts as long as the session, because what a command started ends with its thread."""

    def __init__(self, session: SessionLog) -> None:
        self._worker: threading.Thread | None = None
        self._thread = ThreadPoolExecutor(1, "agent", initializer=self._enter)
        self._items: queue.SimpleQueue[StreamItem | None] = queue.SimpleQueue()
        self._working: Future[TurnResult] | None = None
        session.subscribe(self)

    def stream(
        self, work: Callable[[], TurnResult], interrupt: Callable[[], bool]
    ) -> Generator[StreamItem, None, TurnResult]:
        """Run `work` and yield what it tells. Raises what it raises; a stream that is left early
        interrupts it."""
        items = self._items = queue.SimpleQueue()
        working = self._working = self._thread.submit(work)
        working.add_done_callback(lambda _: items.put(None))
        try:
            while (what := items.get()) is not None:
                yield what
        finally:
            self.stop(interrupt)
        return working.result()

    def stop(self, interrupt: Callable[[], bool]) -> None:
        """Stop the work that goes on, if any; it is recorded when this returns."""
        is_told = False
        while self._working is not None and not self._working.done():
            # Repeated until the work has come to where it can be interrupted; once is enough.
            is_told = is_told or interrupt()
            wait([self._working], _PAUSE_S)
        self._working = None

    @property
    def is_open(self) -> bool:
        return self._working is not None

    def is_here(self) -> bool:
        """Return whether the caller runs on the streams' thread."""
        return threading.current_thread() is self._worker

    def _enter(self) -> None:
        self._worker = threading.current_thread()

    def on_event(self, event: Event) -> None:
        self._tell(event)

    def on_progress(self, progress: Progress) -> None:
        self._tell(progress)

    def _tell(self, item: StreamItem) -> None:
        if self._working is not None:
            self._items.put(item)

    def close(self) -> None:
        self._thread.shutdown()
