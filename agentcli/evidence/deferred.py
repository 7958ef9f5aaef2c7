"""Evidence of a running session, gathered once its first request is sent, to delay nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentcli.events.progress import Status
from agentcli.evidence import Evidence

if TYPE_CHECKING:
    from agentcli.events import Event, Progress
    from agentcli.evidence.fold import EvidenceFold


class DeferredEvidence:
    """A subscriber that gathers evidence; `past` are the events that the session already has."""

    def __init__(self, past: Iterable[Event] = ()) -> None:
        self._held = list(past)
        self._fold: EvidenceFold | None = None

    def on_event(self, event: Event) -> None:
        if self._fold is not None:
            self._fold.on_event(event)
            return
        self._held.append(event)
        if event.reply is not None:
            self._gather()

    def on_progress(self, progress: Progress) -> None:
        """Progress is no evidence, but while the model thinks there is time to start gathering."""
        if self._fold is None and progress == Status("thinking"):
            self._gather()

    @property
    def evidence(self) -> Evidence:
        return (self._fold or self._gather()).evidence

    def _gather(self) -> EvidenceFold:
        from agentcli.evidence.fold import EvidenceFold

        self._fold = EvidenceFold.of(self._held)
        self._held = []
        return self._fold
