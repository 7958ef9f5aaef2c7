"""The same steps done by bare loops, measured like the agent."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from benchmarks.bare_loops import CLIENTS, SHELLS
from benchmarks.bench import Bench
from benchmarks.report import Figure
from benchmarks.steps import STEPS, describe

_SCRIPT = str(Path(__file__).with_name("bare_loops.py"))


def measure(bench: Bench, repeats: int) -> tuple[list[Figure], list[str]]:
    """The figures, and which loops were left out."""
    figures: list[Figure] = []
    left_out = []
    for client in CLIENTS:
        if importlib.util.find_spec(client) is None:
            left_out.append(f"bare loop over {client}: not installed")
            continue
        for shell in SHELLS:
            argv = [sys.executable, _SCRIPT, client, shell, bench.model.url]
            runs = [bench.talk(argv, STEPS) for _ in range(repeats)]
            figures += describe(f"Bare loop, {client}, {shell} bash, {STEPS} steps", runs)
    return figures, left_out
