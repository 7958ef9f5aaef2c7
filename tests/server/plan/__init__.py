"""The fault plan: every way in which a server can fail, by name, and what must come of it.

A run against a fault ends with the work done or with a clear error, within few requests, and no
call that came in half is ever run. `tests/llm/test_faults.py` plays each one on every protocol.
"""

from __future__ import annotations

from . import contents, overflow, statuses, streams, transport
from .fault import APIS, DONE, KEY, RETRIES, Completes, Expected, Fails, Fault, Scene

__all__ = [
    "APIS",
    "DONE",
    "KEY",
    "PLAN",
    "RETRIES",
    "Completes",
    "Expected",
    "Fails",
    "Fault",
    "Scene",
]

PLAN: dict[str, Fault] = {}
for _part in (statuses, transport, streams, contents, overflow):
    _twice = PLAN.keys() & _part.FAULTS.keys()
    assert not _twice, f"two faults have one name: {_twice}"
    PLAN |= _part.FAULTS
