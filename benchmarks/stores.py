"""What a step costs where sessions are in a database, beside files."""

from __future__ import annotations

from benchmarks.bench import PROTOCOLS, Bench, Measured
from benchmarks.process import keep
from benchmarks.report import Figure, figure
from tests.databases import postgresql_programs, postgresql_server

_STEPS = 100
_PROTOCOL = PROTOCOLS[0]


def measure(bench: Bench, repeats: int) -> tuple[list[Figure], list[str]]:
    """By turns; what could not be measured."""
    programs = postgresql_programs()
    if programs is None:
        return _by_turns(bench, repeats, {}), ["sessions in PostgreSQL: it is not installed"]
    with postgresql_server(programs, durable=True) as server:
        keep(server.pid)
        return _by_turns(bench, repeats, {"PostgreSQL": server.database()}), []


def _by_turns(bench: Bench, repeats: int, servers: dict[str, str]) -> list[Figure]:
    stores = {"files": "files", "SQLite": "sqlite:///bench.db", **servers}
    runs: dict[str, list[Measured]] = {name: [] for name in stores}
    for _ in range(repeats):
        for name, store in stores.items():
            runs[name].append(bench.work(_PROTOCOL.model, _STEPS, env={"AGENT_STORE": store}))
    return [found for name, each in runs.items() for found in _described(name, each)]


def _described(name: str, runs: list[Measured]) -> list[Figure]:
    part = f"sessions in {name}"
    gaps = [run.report.gap_around(0, _STEPS) for run in runs]
    return [
        figure(part, "start to first request", [run.start_ms for run in runs], "ms"),
        figure(part, "gap a step, median of all", gaps, "ms"),
        figure(part, "exit", [run.exit_ms for run in runs], "ms"),
        figure(part, "peak memory", [run.run.peak_mb for run in runs], "MB"),
    ]
