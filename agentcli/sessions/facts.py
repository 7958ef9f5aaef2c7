"""What a stretch of a session amounts to: steps, tokens, money, files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentcli.events import Event
from agentcli.events.observations import (
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.messages import Usage


@dataclass(frozen=True)
class Facts:
    """`cost_usd` is None when the price of a reply is not known; `files_changed` are those that the
    file tools left other than they were when first read, in order of the first change."""

    steps: int
    usage: Usage
    cost_usd: float | None
    files_changed: tuple[str, ...]


def facts(events: Iterable[Event]) -> Facts:
    steps = 0
    known: dict[str, str] = {}
    usage = Usage()
    cost: float | None = 0.0
    files: dict[str, tuple[str | None, str]] = {}
    for event in events:
        if metrics := event.llm_metrics:
            steps += 1
            usage += Usage(
                metrics.prompt_tokens,
                metrics.completion_tokens,
                metrics.cache_read_tokens,
                metrics.cache_write_tokens,
                metrics.reasoning_tokens,
            )
            cost = None if cost is None or metrics.cost_usd is None else cost + metrics.cost_usd
        if isinstance(event, FileWriteObservation | FileEditObservation):
            first = files.get(event.path, (known.get(event.path), ""))[0]
            files[event.path] = (first, event.digest)
        if isinstance(event, FileReadObservation | FileWriteObservation | FileEditObservation):
            known[event.path] = event.digest
    changed = (path for path, (first, last) in files.items() if first != last)
    return Facts(steps, usage, cost, tuple(changed))
