"""The renderer of a conversation, used by two threads: the working one and the prompt's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock

from agentcli.events import Action, Event, Progress
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.progress import Notice
from agentcli.ui.screen import Kind
from agentcli.ui.style import Line
from agentcli.ui.summary import RunSummary
from agentcli.ui.terminal import TerminalRenderer


class SharedRenderer:
    """A subscriber that passes everything to `renderer`, one thread at a time."""

    def __init__(self, renderer: TerminalRenderer) -> None:
        self._renderer = renderer
        self._lock = Lock()
        self.has_begun = False
        """Whether the session was shown here before, so that reopening it needs no message."""
        self._told: set[str] = set()

    def on_event(self, event: Event) -> None:
        with self._lock:
            if self.has_begun and isinstance(event, SessionStartedObservation):
                self._renderer.begin_session(event)
            else:
                self._renderer.on_event(event)

    def on_progress(self, progress: Progress) -> None:
        if isinstance(progress, Notice):
            if self.has_begun and progress.text in self._told:
                return
            self._told.add(progress.text)
        with self._lock:
            self._renderer.on_progress(progress)

    def expect(self, calls: Iterable[Action]) -> None:
        with self._lock:
            self._renderer.expect(calls)

    def show(self, kind: Kind, lines: Sequence[Line], *, words: bool = False) -> None:
        with self._lock:
            self._renderer.show(kind, lines, words=words)

    def pause(self) -> None:
        with self._lock:
            self._renderer.pause()

    def closing_line(self, summary: RunSummary) -> None:
        with self._lock:
            self._renderer.closing_line(summary)

    def close(self) -> None:
        with self._lock:
            self._renderer.close()

    def tick(self) -> None:
        """Advance clocks and spinners, unless something is being drawn anyway."""
        if self._lock.acquire(blocking=False):
            try:
                self._renderer.tick()
            finally:
                self._lock.release()
