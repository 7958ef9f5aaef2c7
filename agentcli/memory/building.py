"""A memory as the settings want it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentcli.events.actions import CondensationAction
from agentcli.memory.compaction_cost import Prices
from agentcli.memory.condensers.base import Ask, Options
from agentcli.memory.condensers.registry import condenser
from agentcli.memory.memory import Memory, WindowLimits
from agentcli.messages import ToolSchema, Usage

_SAMPLE_TOKENS = 1_000
_COST_AWARE = "default"
"""The condenser that chooses how much to leave by its cost; the others keep to low_water."""


class MemoryOptions(Protocol):
    """The settings of the section `memory`."""

    @property
    def high_water(self) -> float: ...
    @property
    def low_water(self) -> float: ...
    @property
    def condenser(self) -> str | Sequence[str]: ...
    @property
    def keep_first(self) -> int: ...
    @property
    def max_size(self) -> int: ...
    @property
    def max_events(self) -> int: ...
    @property
    def attention_window(self) -> int: ...
    @property
    def browser_attention_window(self) -> int: ...
    @property
    def max_event_chars(self) -> int: ...
    @property
    def cooldown_s(self) -> float: ...
    @property
    def enable_history_truncation(self) -> bool: ...


class PriceList(Protocol):
    def context_tokens(self, name: str) -> int: ...
    def cost(self, name: str, usage: Usage) -> float | None: ...


@dataclass(frozen=True)
class Models:
    """The model that works and the one that sums up, by their full names; `context_tokens` is what
    the user set for the window of the first (0: as catalogued), `max_output_tokens` what is kept
    free of it for the reply."""

    main: str
    condenser: str
    max_output_tokens: int
    context_tokens: int = 0


def build_memory(
    options: MemoryOptions,
    tools: tuple[ToolSchema, ...],
    models: Models,
    catalog: PriceList,
    ask: Ask | None,
    record: Callable[[CondensationAction], object] = lambda action: None,
) -> Memory:
    """Raises ConfigError for options that can't be. Windows and prices are asked of `catalog` when
    they begin to matter."""

    def context_tokens() -> int:
        window = models.context_tokens or catalog.context_tokens(models.main)
        return max(window - models.max_output_tokens, window // 2)

    def condenser_window() -> int:
        if models.condenser == models.main and models.context_tokens:
            return models.context_tokens
        return catalog.context_tokens(models.condenser)

    chosen = condenser(
        options.condenser,
        Options(
            ask=ask,
            window=condenser_window,
            keep_first=options.keep_first,
            max_size=options.max_size,
            max_events=options.max_events,
            attention_window=options.attention_window,
            browser_attention_window=options.browser_attention_window,
            max_event_chars=options.max_event_chars,
            cooldown_s=options.cooldown_s,
        ),
    )
    return Memory(
        WindowLimits(
            context_tokens,
            options.high_water,
            options.low_water,
            lean=options.condenser == _COST_AWARE,
        ),
        tools,
        chosen,
        _prices_of(catalog, models),
        models.main.partition("/")[0],
        truncate=options.enable_history_truncation,
        record=record,
    )


def _prices_of(catalog: PriceList, models: Models) -> Callable[[], Prices | None]:
    """What a token of prompt and cache costs with the main model, one of output with the other."""

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
