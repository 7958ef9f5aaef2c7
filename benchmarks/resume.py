"""How much longer the first request takes when a long session is resumed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from agentcli.sessions.event_log import read_log
from agentcli.sessions.file_store import FileStore
from benchmarks.bench import PROTOCOLS, Bench, agent_options
from benchmarks.report import Figure, figure
from benchmarks.startup import EXIT_MS

EVENTS = 10_000
_LIMIT_MS = 500.0
_STEPS = 10
_PART = f"Resume of {EVENTS:,} events"


def measure(bench: Bench, rounds: int) -> list[Figure]:
    """A new session and the long one by turns; the first round does not count."""
    protocol = PROTOCOLS[0]
    folder = _long_session(bench, protocol.model)
    argv = [bench.agent, "resume", *agent_options(protocol.model), folder.name, "go on"]
    fresh, resumed, ends = [], [], []
    for number in range(rounds + 1):
        new, old = bench.work(protocol.model, 0), bench.talk(argv, 0)
        if number:
            fresh.append(new.start_ms)
            resumed.append(old.start_ms)
            ends.append(old.exit_ms)
    over = [value - median(fresh) for value in resumed]
    size = old.report.sizes[0] / 1e6
    return [
        figure(_PART, "start to first request, new session", fresh, "ms"),
        figure(_PART, f"start to first request, resumed ({size:.1f} MB)", resumed, "ms"),
        figure(_PART, "resume over start", over, "ms", _LIMIT_MS),
        figure(_PART, "exit after the last reply", ends, "ms", EXIT_MS),
    ]


def _long_session(bench: Bench, model: str) -> Path:
    """A real session of a few steps in which the steps are repeated until it is long enough."""
    before = set(_sessions(bench))
    bench.work(model, _STEPS)
    (folder,) = set(_sessions(bench)) - before
    records = read_log(folder).records
    for path in [*(folder / "events").iterdir(), folder / "state.pkl"]:
        path.unlink()
    store = FileStore(folder)
    store.open()
    with mock.patch("os.fsync"):
        for event_id, record in enumerate(_grown(records)):
            body = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
            store.append([(event_id, body)])
    store.close()
    return folder


def _sessions(bench: Bench) -> Iterator[Path]:
    return (bench.home / "sessions").glob("*")


def _grown(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """`records` with the stretch from the first reply with a call to the last result repeated."""
    calls = [n for n, record in enumerate(records) if record.get("tool_call_metadata")]
    first, end = calls[0], calls[-1] + 2
    stretch = end - first
    copies = (EVENTS - len(records)) // stretch + 1
    yield from records[:first]
    for number in range(copies + 1):
        for record in records[first:end]:
            yield _shifted(record, number * stretch, f"-{number}")
    for record in records[end:]:
        yield _shifted(record, copies * stretch, "")


def _shifted(record: dict[str, Any], by: int, mark: str) -> dict[str, Any]:
    """A copy `by` places later, with ids of its own."""
    new = copy.deepcopy(record)
    new["id"] += by
    if new.get("cause") is not None:
        new["cause"] += by
    if new.get("reply"):
        new["reply"]["id"] += mark
    if new.get("tool_call_metadata"):
        new["tool_call_metadata"]["tool_call_id"] += mark
    return new
