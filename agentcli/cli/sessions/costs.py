"""What a session used, by model and by the role it was used for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentcli.errors import AgentError
from agentcli.sessions.search.finder import state_of
from agentcli.sessions.state import Metrics, State
from agentcli.ui.summary import money, quantity
from agentcli.ui.text import printable

_COUNTED = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "reasoning_tokens")
_HEADINGS = ("replies", "in (cached)", "out", "reasoning", "cost")
_WIDTHS = (7, 13, 7, 9, 13)
_MODEL_WIDTH = 25
"""Together with the number columns and the gaps, this makes 80 columns."""


def costs(folder: Path, state: State) -> dict[str, Any]:
    """Return the data for --json of the session in `folder`: `rows` by model and part, the
    `children`, and the `total`. `cached_share` is from 0 to 1, None without a prompt; `cost_usd` is
    None if the price of a reply is unknown."""
    used_by = [
        (model, part, used)
        for part, models in state.parts.items()
        for model, used in models.items()
    ]
    children = list(_children_of(folder, state))
    every = [used for _, _, used in used_by]
    every += [used for _, _, models in children for used in models.values()]
    return {
        "session_id": folder.name,
        "rows": [
            {"model": model, "part": part, **_numbers([used])} for model, part, used in used_by
        ],
        "children": [
            {"session_id": session_id, "agent": agent, **_numbers(models.values())}
            for session_id, agent, models in children
        ],
        "total": _numbers(every),
        "max_budget_usd": state.max_budget_usd,
    }


def _children_of(folder: Path, state: State) -> Iterator[tuple[str, str, Metrics]]:
    """Yield id, agent and use of each child, its own children included, from its own record, which
    also covers a child at work or stopped by its own session; if it is unreadable, the use that it
    reported."""
    for session_id, reported in state.children.items():
        agent, used = "", reported
        with suppress(AgentError, OSError):
            child = state_of(folder.with_name(session_id))
            agent, used = child.agent_name, child.metrics_with_children
        yield session_id, agent, used


def table(told: Mapping[str, Any]) -> list[str]:
    """Return `costs` as a table for people, at most 80 columns wide unless a model's name is too
    long."""
    lines = [_line("model", _HEADINGS)]
    for row in told["rows"]:
        model = row["model"] if row["part"] == "main" else f"{row['model']} ({row['part']})"
        lines += _row(printable(model, multiline=False), row)
    for row in told["children"]:
        name = f"{row['agent'] or 'child'} {row['session_id']}"
        lines += _row(printable(name, multiline=False), row)
    lines += _row("total", told["total"])
    if told["max_budget_usd"] is not None:
        lines.append(f"budget: ${told['max_budget_usd']:g}")
    return lines


def _numbers(entries: Iterable[Mapping[str, float | int | None]]) -> dict[str, Any]:
    entries = list(entries)
    sums: dict[str, Any] = {
        name: int(sum(entry.get(name) or 0 for entry in entries)) for name in ("replies", *_COUNTED)
    }
    known = [cost for entry in entries if (cost := entry.get("cost_usd")) is not None]
    prompt = sums["prompt_tokens"]
    sums["cached_share"] = round(sums["cache_read_tokens"] / prompt, 4) if prompt else None
    sums["cost_usd"] = sum(known) if len(known) == len(entries) else None
    return sums


def _row(name: str, numbers: Mapping[str, Any]) -> list[str]:
    share = numbers["cached_share"]
    cached = "" if share is None else f" ({int(100 * share)}%)"
    cells = (
        f"{numbers['replies']:,}",
        quantity(numbers["prompt_tokens"]) + cached,
        quantity(numbers["completion_tokens"]),
        quantity(numbers["reasoning_tokens"]),
        money(numbers["cost_usd"]),
    )
    if len(name) > _MODEL_WIDTH:
        return [name, _line("", cells)]
    return [_line(name, cells)]


def _line(name: str, cells: Iterable[str]) -> str:
    columns = (f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
    return f"{name:<{_MODEL_WIDTH}} {' '.join(columns)}"
