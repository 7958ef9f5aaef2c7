"""One JSON object: the header, and all events under `events`, one per line."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.sessions.export import Trajectory, json_text


def write(trajectory: Trajectory) -> Iterator[str]:
    header = json_text(trajectory.header, indent=2)
    yield header.removesuffix("\n}") + ',\n  "events": ['
    separator = "\n"
    for event in trajectory.events:
        yield f"{separator}    {json_text(event)}"
        separator = ",\n"
    yield "\n  ]\n}\n"


EXPORTER = write
