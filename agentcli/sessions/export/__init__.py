"""Export formats of sessions: each file here with an `EXPORTER` is one, and so is each that an
outside package registers in the entry point group `agentcli.exporters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from json import dumps
from types import FunctionType
from typing import Any

from agentcli.errors import AgentError, UsageError
from agentcli.events import event_to_dict
from agentcli.extensions import ExtensionPoint
from agentcli.messages import Usage
from agentcli.sessions.session import Redact, SessionRecord, read_session
from agentcli.ui.text import escaped_in_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Trajectory:
    """`header` describes the session: format_version, session_id, name, title, workspace, model,
    created_at, updated_at, state, cost_usd (None: unknown), usage in tokens. `events` are in their
    JSON form and can be iterated once. `children` reads the sessions it delegated to, by id, as far
    as they exist."""

    header: dict[str, Any]
    events: Iterable[dict[str, Any]]
    children: Callable[[], Mapping[str, Trajectory]] = dict


Exporter = Callable[[Trajectory], Iterator[str]]
"""Yields the text of an export piece by piece."""


def json_text(value: Any, indent: int | None = None) -> str:
    """Return JSON with letters of every language as they are, and controls escaped."""
    return escaped_in_json(dumps(value, ensure_ascii=False, indent=indent))


def trajectory_of(record: SessionRecord, redact: Redact) -> Trajectory:
    """Return the session in `record`, all of it passed through `redact`."""
    state = record.state
    header = {
        "format_version": FORMAT_VERSION,
        "session_id": record.folder.name,
        "name": state.name,
        "title": state.title,
        "workspace": state.workspace,
        "model": state.model,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
        "state": str(state.agent_state),
        "cost_usd": state.cost_usd,
        "usage": {field.name: state.total(field.name) for field in fields(Usage)},
    }
    return Trajectory(
        redact(header),
        (redact(event_to_dict(event)) for event in record.events),
        lambda: dict(_children(record, redact)),
    )


def _children(record: SessionRecord, redact: Redact) -> Iterator[tuple[str, Trajectory]]:
    """Yield only sessions that name this one as their parent. A session's claim about its children
    may come from elsewhere and must not include the exporting person's own sessions."""
    for session_id in record.state.children:
        with suppress(AgentError, OSError, ValueError):
            child = read_session(record.folder.with_name(session_id))
            own = child.state.delegated_by == record.folder.name
            if own and child.state.delegate_level == record.state.delegate_level + 1:
                yield session_id, trajectory_of(child, redact)


EXPORTERS: ExtensionPoint[FunctionType] = ExtensionPoint(
    __name__, "EXPORTER", "agentcli.exporters", FunctionType
)


def exporter(name: str) -> Exporter:
    """Return the exporter of a format. Raises UsageError when there is no such format."""
    found = EXPORTERS.get(name)
    if found is None:
        known = ", ".join(sorted(EXPORTERS.all()))
        raise UsageError(f"there is no format {name!r}", hint=f"known: {known}")
    return found
