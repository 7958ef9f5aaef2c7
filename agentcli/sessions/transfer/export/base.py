"""What an exported session consists of, whatever its form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agentcli.events import event_to_dict
from agentcli.sessions.session import SessionRecord

FORMAT_VERSION = 1
_USAGE = (
    "prompt_tokens",
    "completion_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)

Redactor = Callable[[Any], Any]
"""Masks secrets in JSON data at any depth."""


@dataclass(frozen=True)
class Trajectory:
    """`header` says what the session is: format_version, session_id, name, title, workspace, model,
    created_at, updated_at, state, cost_usd (None: unknown), usage in tokens. `events` are in their
    JSON form and can be gone through once."""

    header: dict[str, Any]
    events: Iterable[dict[str, Any]]


Exporter = Callable[[Trajectory], Iterator[str]]
"""Gives the text of an export piece by piece."""


def trajectory_of(record: SessionRecord, redact: Redactor) -> Trajectory:
    """The session in `record`, all of it passed through `redact`."""
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
        "usage": {name: state.total(name) for name in _USAGE},
    }
    return Trajectory(redact(header), (redact(event_to_dict(event)) for event in record.events))
