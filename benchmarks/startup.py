"""How long it takes until something happens: help, version, the first request, the end."""

from __future__ import annotations

import sys
from collections import defaultdict
from statistics import median

from benchmarks.bench import PROTOCOLS, Bench
from benchmarks.report import Figure, figure

PART = "Start and end"
_OVER_PYTHON = {"--version": 30.0, "--help": 150.0}
EXIT_MS = 50.0
_PROMPT_TOKENS = 2000
_BARE = "python -c pass"

Times = dict[str, list[float]]


def measure(bench: Bench, rounds: int) -> list[Figure]:
    """Everything once a round, so that what disturbs the machine disturbs all alike; the first
    round, in which files come from the disk, does not count."""
    times: Times = defaultdict(list)
    for number in range(rounds + 1):
        for name, value in _round(bench).items():
            if number:
                times[name].append(value)
    return _figures(times) + _prompt(bench)


def _round(bench: Bench) -> dict[str, float]:
    python = sys.executable
    commands = {
        _BARE: [python, "-c", "pass"],
        "import openai": [python, "-c", "import openai"],
        "import anthropic": [python, "-c", "import anthropic"],
        "--version": [bench.agent, "--version"],
        "--help": [bench.agent, "--help"],
    }
    times = {name: 1000 * bench.plain(argv).wall_s for name, argv in commands.items()}
    for protocol in PROTOCOLS:
        measured = bench.work(protocol.model, 0)
        times[f"start {protocol.name}"] = measured.start_ms
        times[f"exit {protocol.name}"] = measured.exit_ms
        times[f"whole {protocol.name}"] = 1000 * measured.run.wall_s
    return times


def _figures(times: Times) -> list[Figure]:
    figures = [
        figure(PART, f"`{name}`", times[name], "ms")
        for name in (_BARE, "import openai", "import anthropic")
    ]
    bare = median(times[_BARE])
    for flag, limit in _OVER_PYTHON.items():
        over = [value - bare for value in times[flag]]
        figures.append(figure(PART, f"`agent {flag}` over bare Python", over, "ms", limit))
    for protocol in PROTOCOLS:
        limit = protocol.start_factor * median(times[f"import {protocol.sdk}"])
        name = f"start to first request, {protocol.name}"
        figures.append(figure(PART, name, times[f"start {protocol.name}"], "ms", limit))
    for protocol in PROTOCOLS:
        name = f"exit after the last reply, {protocol.name}"
        figures.append(figure(PART, name, times[f"exit {protocol.name}"], "ms", EXIT_MS))
    for protocol in PROTOCOLS:
        name = f"whole run without a tool, {protocol.name}"
        figures.append(figure(PART, name, times[f"whole {protocol.name}"], "ms"))
    return figures


def _prompt(bench: Bench) -> list[Figure]:
    """How large the first request is, four bytes to a token."""
    figures = []
    for protocol in PROTOCOLS:
        report = bench.work(protocol.model, 0).report
        fixed, first = report.fixed_bytes / 4, report.sizes[0] / 4
        name = f"system text and tools, {protocol.name}"
        figures.append(figure(PART, name, [fixed], "tokens", _PROMPT_TOKENS))
        figures.append(figure(PART, f"first request, {protocol.name}", [first], "tokens"))
    return figures
