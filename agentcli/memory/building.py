"""Builds a memory from the settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentcli.errors import ConfigError
from agentcli.events.actions import CondensationAction
from agentcli.memory.condensation_cost import Prices
from agentcli.memory.condenser import CONDENSERS, Ask, Condenser, Options
from agentcli.memory.condensers.pipeline import Pipeline
from agentcli.memory.memory import Memory
from agentcli.memory.window import Window
from agentcli.messages import ToolSchema, Usage
from agentcli.settings import MemorySettings

_SAMPLE_TOKENS = 1_000


class PriceList(Protocol):
    def context_tokens(self, name: str) -> int: ...
    def cost(self, name: str, usage: Usage) -> float | None: ...


@dataclass(frozen=True)
class ModelNames:
    """Full names of the main model and of the one that writes summaries. `context_tokens` is the
    main model's window if the user set it (0: as catalogued), `max_output_tokens` the most that
    a reply of it may have."""

    main: str
    condenser: str
    max_output_tokens: int
    context_tokens: int = 0


def build_memory(
    settings: MemorySettings,
    tools: tuple[ToolSchema, ...],
    models: ModelNames,
    catalog: PriceList,
    ask: Ask | None,
    record: Callable[[CondensationAction], object] = lambda action: None,
    limit_results: Callable[[int], None] = lambda chars: None,
) -> Memory:
    """Build the memory of a session. Raises ConfigError for settings that are not possible. Windows
    and prices are looked up in `catalog` on first use. See Memory for the callbacks."""
    window = Window(
        lambda: models.context_tokens or catalog.context_tokens(models.main),
        models.max_output_tokens,
        is_known=models.context_tokens > 0,
    )

    def condenser_window() -> int:
        same = models.condenser == models.main
        return window.tokens if same else catalog.context_tokens(models.condenser)

    return Memory(
        window,
        settings,
        tools,
        choose_condenser(settings.condenser, Options(settings, ask, condenser_window)),
        _prices_of(catalog, models),
        models.main.partition("/")[0],
        record=record,
        limit_results=limit_results,
    )


def choose_condenser(choice: str | Sequence[str], options: Options) -> Condenser:
    """Return the condenser of this name; a list of names is a pipeline. Raises ConfigError for
    unknown names and for settings that are not possible."""
    if not isinstance(choice, str):
        if not choice:
            raise ConfigError("memory.condenser is an empty list", hint='to never condense: "noop"')
        return Pipeline([choose_condenser(name, options) for name in choice])
    kind = CONDENSERS.get(choice)
    if kind is None:
        known = sorted({*CONDENSERS.file_names(), *CONDENSERS.outside_names()})
        near = difflib.get_close_matches(choice, known, 1, 0.5)
        raise ConfigError(
            f"memory.condenser: there is no condenser {choice!r}",
            hint=f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}",
        )
    return kind(options)


def _prices_of(catalog: PriceList, models: ModelNames) -> Callable[[], Prices | None]:
    """Return a function for the price of a token: cache reads and writes with the main model,
    prompt and output with the one that writes summaries. It returns None if any of them is
    unknown."""

    def prices() -> Prices | None:
        sample = _SAMPLE_TOKENS
        costs = [
            catalog.cost(models.condenser, Usage(prompt_tokens=sample)),
            catalog.cost(models.main, Usage(prompt_tokens=sample, cache_read_tokens=sample)),
            catalog.cost(models.main, Usage(prompt_tokens=sample, cache_write_tokens=sample)),
            catalog.cost(models.condenser, Usage(completion_tokens=sample)),
        ]
        known = [cost / sample for cost in costs if cost is not None]
        return Prices(*known) if len(known) == len(costs) else None

    return prices
