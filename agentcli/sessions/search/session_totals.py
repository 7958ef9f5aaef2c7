"""Totals over some events of a session: steps, tokens, money, files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentcli.events import Event, Progress
from agentcli.events.observations import (
    CheckpointObservation,
    DelegateObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.messages import Usage


@dataclass
class SessionTotals:
    """Counts events as they come; can subscribe to a session. Tokens and money include those of
    children; `cost_usd` is None when the price of a reply is unknown. `trees` are the first and the
    last snapshot of the workspace, if there are any; `first_id` is the first event."""

    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    trees: tuple[str, str] | None = None
    first_id: int | None = None
    _known: dict[str, str] = field(default_factory=dict)
    _files: dict[str, tuple[str | None, str]] = field(default_factory=dict)

    @property
    def files_changed(self) -> tuple[str, ...]:
        """The files that the file tools left different from when they were first read, in order of
        the first change."""
        return tuple(path for path, (first, last) in self._files.items() if first != last)

    def on_event(self, event: Event) -> None:
        if self.first_id is None:
            self.first_id = event.id
        if metrics := event.llm_metrics:
            self.steps += 1
            self._add(vars(metrics))
        if isinstance(event, DelegateObservation):
            for used in event.metrics.values():
                self._add(used)
        if isinstance(event, FileWriteObservation | FileEditObservation):
            first = self._files.get(event.path, (self._known.get(event.path), ""))[0]
            self._files[event.path] = (first, event.digest)
        if isinstance(event, FileReadObservation | FileWriteObservation | FileEditObservation):
            self._known[event.path] = event.digest
        if isinstance(event, CheckpointObservation) and event.tree:
            self.trees = (self.trees[0] if self.trees else event.tree, event.tree)

    def _add(self, used: Mapping[str, Any]) -> None:
        self.usage += Usage.of(used)
        usd = used.get("cost_usd")
        self.cost_usd = None if self.cost_usd is None or usd is None else self.cost_usd + usd

    def on_progress(self, progress: Progress) -> None:
        """Do nothing: progress does not count."""


def totals(events: Iterable[Event]) -> SessionTotals:
    counted = SessionTotals()
    for event in events:
        counted.on_event(event)
    return counted
