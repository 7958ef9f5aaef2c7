"""Versions of the stored form of events, and how older ones are read.

A new field with a default, or a new kind of event, needs no new version: older readers keep what
they don't know unchanged. A change that older readers would misread does: add a function to
`UPGRADES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = dict[str, Any]

UPGRADES: Sequence[Callable[[Record], Record]] = ()
"""`UPGRADES[n]` turns the JSON form of version n + 1 into that of version n + 2."""

FIRST_VERSION = 1
EVENT_VERSION = FIRST_VERSION + len(UPGRADES)


def version_of(record: Mapping[str, Any]) -> int:
    """Return the version of a stored event. Raises ValueError if there is no valid one."""
    version = record.get("schema_version", FIRST_VERSION)
    if type(version) is not int or version < FIRST_VERSION:
        raise ValueError(f"not an event: schema_version is {version!r}")
    return version


def upgraded(record: Record, upgrades: Sequence[Callable[[Record], Record]] = UPGRADES) -> Record:
    """Return `record` in the newest form; if its version is newer still, unchanged."""
    for upgrade in upgrades[version_of(record) - FIRST_VERSION :]:
        record = {**upgrade(record), "schema_version": version_of(record) + 1}
    return record
