"""What a stretch of a session amounts to: steps, tokens, money, files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from agentcli.events import Event, Progress
from agentcli.events.observations import (
    CheckpointObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.messages import Usage


@dataclass(frozen=True)
class SessionTotals:
    """`cost_usd` is None when the price of a reply is not known; `files_changed` are those that the
    file tools left other than they were when first read, in order of the first change; `trees` the
    first and the last snapshot of the workspace, if there are any."""

    steps: int
    usage: Usage
    cost_usd: float | None
    files_changed: tuple[str, ...]
    trees: tuple[str, str] | None


class SessionTotalsCounter:
    """Counts events as they come; a subscriber of a session."""

    def __init__(self) -> None:
        self._steps = 0
        self._usage = Usage()
        self._cost: float | None = 0.0
        self._known: dict[str, str] = {}
        self._files: dict[str, tuple[str | None, str]] = {}
        self._trees: tuple[str, str] | None = None

    def on_event(self, event: Event) -> None:
        if metrics := event.llm_metrics:
            self._steps += 1
            self._usage += Usage(*(getattr(metrics, field.name) for field in fields(Usage)))
            unknown = self._cost is None or metrics.cost_usd is None
            self._cost = None if unknown else (self._cost or 0) + (metrics.cost_usd or 0)
        if isinstance(event, FileWriteObservation | FileEditObservation):
            first = self._files.get(event.path, (self._known.get(event.path), ""))[0]
            self._files[event.path] = (first, event.digest)
        if isinstance(event, FileReadObservation | FileWriteObservation | FileEditObservation):
            self._known[event.path] = event.digest
        if isinstance(event, CheckpointObservation) and event.tree:
            self._trees = (self._trees[0] if self._trees else event.tree, event.tree)

    def on_progress(self, progress: Progress) -> None:
        """Progress does not count."""

    @property
    def totals(self) -> SessionTotals:
        changed = (path for path, (first, last) in self._files.items() if first != last)
        return SessionTotals(self._steps, self._usage, self._cost, tuple(changed), self._trees)


def totals(events: Iterable[Event]) -> SessionTotals:
    counter = SessionTotalsCounter()
    for event in events:
        counter.on_event(event)
    return counter.totals
