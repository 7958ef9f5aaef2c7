"""JSON Lines: the header on the first line, then one event per line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentcli.sessions.transfer.export.base import Trajectory


def write(trajectory: Trajectory) -> Iterator[str]:
    for line in (trajectory.header, *trajectory.events):
        yield json.dumps(line, ensure_ascii=False) + "\n"


EXPORTER = write
