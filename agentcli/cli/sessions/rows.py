"""How sessions look in a list: facts about each in columns, then its name and title."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.cli.user_paths import home, tilde_path
from agentcli.sessions.library import library_of
from agentcli.sessions.manage.retention import updated_at
from agentcli.sessions.search.finder import FoundSession
from agentcli.sessions.state import State
from agentcli.sessions.store import Holder
from agentcli.ui.choices import Choice, aligned
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import ago, count, money
from agentcli.ui.text import Line, Span, Style, printable

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
