"""Processes that commands leave behind, and how they are told from others."""

from __future__ import annotations

import time
from pathlib import Path

LEAVE = (
    "setsid sleep {0} & nohup sleep {0} & (trap '' TERM HUP; exec sleep {0}) & "
    "env -i setsid sh -c 'sleep {0} & sleep {0}' & disown -a; echo left"
)
"""Some that sleep for so many seconds, in sessions, groups and environments of their own."""


def processes_with(mark: str) -> list[int]:
    """Those that have `mark` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_text(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def gone(mark: str) -> bool:
    """Whether all of them end; gives up after a while."""
    deadline = time.monotonic() + 10
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not processes_with(mark)
