"""What a stretch of a session amounts to: steps, tokens, money, files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentcli.events import Event
from agentcli.events.observations import FileEditObservation, FileWriteObservation
from agentcli.messages import Usage


@dataclass(frozen=True)
class Facts:
    """`cost_usd` is None when the price of a reply is not known; files in order of first change."""

    steps: int
    usage: Usage
    cost_usd: float | None
    files_changed: tuple[str, ...]


def facts(events: Iterable[Event]) -> Facts:
    steps = 0
    usage = Usage()
    cost: float | None = 0.0
    files: dict[str, None] = {}
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
            known = cost is not None and metrics.cost_usd is not None
            cost = cost + metrics.cost_usd if known else None  # type: ignore[operator]
        if isinstance(event, FileWriteObservation | FileEditObservation):
            files[event.path] = None
    return Facts(steps, usage, cost, tuple(files))
