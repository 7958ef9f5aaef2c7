"""One self-contained page of HTML: docs/records.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentcli.events import Event, OpaqueEvent, event_from_dict
from agentcli.page.document import render_page
from agentcli.page.timeline import History
from agentcli.sessions.export import Trajectory


def write(trajectory: Trajectory) -> Iterator[str]:
    return render_page(_history(trajectory))


def _history(trajectory: Trajectory) -> History:
    events = [_event(data) for data in trajectory.events]
    children = {name: _history(child) for name, child in trajectory.children().items()}
    return History(trajectory.header, events, children)


def _event(data: dict[str, Any]) -> Event:
    """Parse an event; if redaction has made it invalid, return an OpaqueEvent."""
    try:
        return event_from_dict(data)
    except ValueError:
        return OpaqueEvent(id=data["id"], timestamp=data["timestamp"], raw=data)


EXPORTER = write
