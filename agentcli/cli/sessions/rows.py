"""How sessions look in a list: facts about each in columns, then its name and title."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.cli.user_paths import home, tilde_path
from agentcli.errors import AgentError
from agentcli.sessions.finder import FoundSession, state_of
from agentcli.sessions.library import library_of
from agentcli.sessions.state import Metrics, State
from agentcli.sessions.store import Holder
from agentcli.sessions.upkeep import updated_at
from agentcli.ui.choices import Choice, aligned
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import ago, count, money, quantity
from agentcli.ui.text import Line, Span, Style, printable, say_note
from agentcli.workspace.private import DISK_BYTES, read_private

_LONG_AGO_DAYS = 30
_STYLES: dict[str, Style] = {"failed": "red", "finished": "green"}


def session_facts(found: Sequence[FoundSession], *, with_id: bool = False) -> list[Line]:
    """Return when each session was last used, how it ended, what it used; `with_id` adds its id."""
    users = library_of(home()).holders([each.folder.name for each in found])
    rows = [
        ([Span(each.folder.name, "bold")] if with_id else [])
        + _facts(each, users.get(each.folder.name))
        for each in found
    ]
    return aligned(rows, right=(1, 3, 4) if with_id else (0, 2, 3))


def session_row(
    found: FoundSession, facts: Line, *, with_place: bool, needs_message: bool = False
) -> Choice[FoundSession]:
    """Return a session's row; `with_place` adds its folder, for lists of several folders."""
    return Choice(
        found,
        title=found.state.title,
        facts=facts,
        name=found.state.name or "",
        place=tilde_path(found.state.workspace) if with_place else "",
        hidden=found.folder.name,
        needs_message=needs_message,
    )


def status_text(state: State, user: Holder | None) -> str:
    """Return who is using the session, or how it ended."""
    return f"in use by {user.pid}" if user else how_it_ended(state.agent_state, state.exit_code)


def _facts(found: FoundSession, user: Holder | None) -> list[Span]:
    state = found.state
    stands = status_text(state, user)
    return [
        Span(age(updated_at(found.folder, state)), "dim"),
        Span(stands, "yellow" if user else _STYLES.get(stands, "")),
        Span(count(state.iteration, "step"), "dim"),
        Span("" if state.cost_usd is None else money(state.cost_usd), "dim"),
    ]


def label(state: State) -> str:
    """Return name and title on one line, safe to show."""
    text = f"{state.name}: {state.title}" if state.name else state.title
    return printable(text, multiline=False).strip()


def age(moment: datetime) -> str:
    """Return how long ago that was, in at most eleven columns; the date if it was long ago."""
    passed = datetime.now(UTC) - moment
    if passed.days > _LONG_AGO_DAYS:
        return f"{moment.astimezone():%Y-%m-%d}"
    return ago(passed.total_seconds())


def session_as_dict(folder: Path, state: State) -> dict[str, Any]:
    return {
        "session_id": folder.name,
        "name": state.name,
        "title": state.title,
        "state": state.agent_state,
        "workspace": state.workspace,
        "model": state.model,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
        "delegated_by": state.delegated_by,
        "steps": state.iteration,
        "prompt_tokens": state.total("prompt_tokens"),
        "completion_tokens": state.total("completion_tokens"),
        "cache_read_tokens": state.total("cache_read_tokens"),
        "cost_usd": state.cost_usd,
        "events": state.end_id + 1,
    }


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


def kept_outputs(folder: Path) -> Callable[[str], str | None]:
    """Return a function that reads a full output of the session in `folder`, with secrets masked. A
    missing one is reported on stderr: the session may have worked on another machine."""

    def read(name: str) -> str | None:
        from agentcli.cli.builders import redactor  # 300 ms, and few outputs are that long

        data = read_private(folder / "outputs" / Path(name).name, DISK_BYTES)
        if data is None:
            say_note(f"{folder / 'outputs' / name} is not here; its ends are shown")
            return None
        masked: str = redactor()(data.decode("utf-8", "replace"))
        return masked

    return read
