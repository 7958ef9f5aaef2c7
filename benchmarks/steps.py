"""What a step costs: the gap between a reply and the next request, CPU time, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.bench import PROTOCOLS, Bench, Measured, Protocol
from benchmarks.report import Figure, figure

STEPS = 300
LONG = 3000
_LOOKED_AT = (10, STEPS, LONG)
_GAP_MS = 6.0
_GAP_MS_PER_MB = 15.0
_CPU_MS = 8.0
_WALL_S = 3.0


def measure(bench: Bench, repeats: int) -> list[Figure]:
    """300 steps over each protocol, by turns."""
    runs: dict[str, list[Measured]] = {protocol.name: [] for protocol in PROTOCOLS}
    for _ in range(repeats):
        for protocol in PROTOCOLS:
            runs[protocol.name].append(bench.work(protocol.model, STEPS))
    figures = []
    for protocol in PROTOCOLS:
        part = f"{STEPS} steps, {protocol.name}"
        figures += describe(part, runs[protocol.name], protocol)
        figures.append(_prefix(bench, protocol, part))
    return figures


def describe(part: str, runs: Sequence[Measured], protocol: Protocol | None = None) -> list[Figure]:
    """The figures of equal runs of many steps, with limits when they are the agent's."""
    steps = runs[0].steps
    ours = protocol is not None

    def add(
        name: str, value: Callable[[Measured], float], unit: str, limit: float | None = None
    ) -> Figure:
        values = [value(measured) for measured in runs]
        return figure(part, name, values, unit, limit if ours else None)

    body_mb = runs[0].report.sizes[-1] / 1e6
    return [
        add("start to first request", lambda m: m.start_ms, "ms"),
        add("gap a step, median of all", lambda m: m.report.gap_around(0, steps), "ms", _GAP_MS),
        add(f"gap around step {steps}", lambda m: m.report.gap_around(steps), "ms", _GAP_MS),
        add("CPU a step, start and commands included", lambda m: m.cpu_ms, "ms", _CPU_MS),
        add("whole process", lambda m: m.run.wall_s, "s", _WALL_S),
        add("peak memory", lambda m: m.run.peak_mb, "MB", protocol.memory_mb if protocol else 0),
        add("connections opened", lambda m: float(m.report.connections), "", 1),
        add("processes left behind", lambda m: float(m.run.strays), "", 0),
        figure(part, "request body in the end", [body_mb], "MB"),
    ]


def _prefix(bench: Bench, protocol: Protocol, part: str) -> Figure:
    breaks = bench.work(protocol.model, STEPS, keep=True).report.prefix_breaks or []
    return figure(part, "requests that break the prefix", [float(len(breaks))], "", 0)


def measure_long(bench: Bench, protocol: Protocol) -> list[Figure]:
    """Whether the cost of a step stays what it was."""
    measured = bench.work(protocol.model, LONG)
    report, part = measured.report, f"{LONG:,} steps, {protocol.name}"

    def add(name: str, value: float, unit: str, limit: float | None = None) -> Figure:
        return figure(part, name, [value], unit, limit)

    figures = []
    memory = [measured.run.rss_at(report.received[step]) for step in _LOOKED_AT]
    for step, rss in zip(_LOOKED_AT, memory, strict=True):
        size = report.sizes[step] / 1e6
        gap = report.gap_around(step, 10)
        figures.append(add(f"gap around step {step:,}, body {size:.2f} MB", gap, "ms"))
        figures.append(add(f"memory at step {step:,}", rss, "MB"))
    growth = 1000 * (memory[-1] - memory[1]) / (LONG - _LOOKED_AT[1])
    return [
        *figures,
        add("memory gained in 1,000 steps", growth, "MB"),
        add("gap gained with each MB of body", measured.gap_ms_per_mb, "ms", _GAP_MS_PER_MB),
        add("CPU a step, start and commands included", measured.cpu_ms, "ms"),
        add("whole process", measured.run.wall_s, "s"),
        add("peak memory", measured.run.peak_mb, "MB", protocol.memory_mb),
    ]
