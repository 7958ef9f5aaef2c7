"""JSON Lines: the header on the first line, then one event per line."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.sessions.export import Trajectory, json_text


def write(trajectory: Trajectory) -> Iterator[str]:
    for line in (trajectory.header, *trajectory.events):
        yield json_text(line) + "\n"


EXPORTER = write
