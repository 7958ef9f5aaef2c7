"""One JSON object: the header, and all events under `events`, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentcli.sessions.transfer.export.base import Trajectory


def write(trajectory: Trajectory) -> Iterator[str]:
    header = json.dumps(trajectory.header, ensure_ascii=False, indent=2)
    yield header.removesuffix("\n}") + ',\n  "events": ['
    separator = "\n"
    for event in trajectory.events:
        yield f"{separator}    {json.dumps(event, ensure_ascii=False)}"
        separator = ",\n"
    yield "\n  ]\n}\n"


EXPORTER = write
