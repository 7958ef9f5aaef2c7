"""Totals over some events of a session: steps, tokens, money, files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from agentcli.events import Event, Progress
from agentcli.events.observations import (
    CheckpointObservation,
    DelegateObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.messages import Usage


@dataclass(frozen=True)
class SessionTotals:
    """Tokens and money include those of children; `cost_usd` is None when the price of a reply is
    unknown. `files_changed` are the files that the file tools left different from when they were
    first read, in order of the first change; `trees` are the first and the last snapshot of the
    workspace, if there are any; `first_id` is the first event."""

    steps: int
    usage: Usage
    cost_usd: float | None
    files_changed: tuple[str, ...]
    trees: tuple[str, str] | None
    first_id: int | None = None


class SessionTotalsCounter:
    """Counts events as they come; can subscribe to a session."""

    def __init__(self) -> None:
        self._steps = 0
        self._usage = Usage()
        self._cost: float | None = 0.0
        self._known: dict[str, str] = {}
        self._files: dict[str, tuple[str | None, str]] = {}
        self._trees: tuple[str, str] | None = None
        self._first_id: int | None = None

    def on_event(self, event: Event) -> None:
        if self._first_id is None:
            self._first_id = event.id
        if metrics := event.llm_metrics:
            self._steps += 1
            self._usage += Usage(*(getattr(metrics, field.name) for field in fields(Usage)))
            self._add_cost(metrics.cost_usd)
        if isinstance(event, DelegateObservation):
            for used in event.metrics.values():
                self._usage += Usage(*(int(used.get(f.name) or 0) for f in fields(Usage)))
                self._add_cost(used.get("cost_usd"))
        if isinstance(event, FileWriteObservation | FileEditObservation):
            first = self._files.get(event.path, (self._known.get(event.path), ""))[0]
            self._files[event.path] = (first, event.digest)
        if isinstance(event, FileReadObservation | FileWriteObservation | FileEditObservation):
            self._known[event.path] = event.digest
        if isinstance(event, CheckpointObservation) and event.tree:
            self._trees = (self._trees[0] if self._trees else event.tree, event.tree)

    def _add_cost(self, usd: float | None) -> None:
        self._cost = None if self._cost is None or usd is None else self._cost + usd

    def on_progress(self, progress: Progress) -> None:
        """Do nothing: progress does not count."""

    @property
    def totals(self) -> SessionTotals:
        changed = (path for path, (first, last) in self._files.items() if first != last)
        return SessionTotals(
            self._steps, self._usage, self._cost, tuple(changed), self._trees, self._first_id
        )


def totals(events: Iterable[Event]) -> SessionTotals:
    counter = SessionTotalsCounter()
    for event in events:
        counter.on_event(event)
    return counter.totals
