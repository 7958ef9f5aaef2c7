"""`python -m benchmarks`: measure everything, print a table, write results.json."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    batch,
    checkpoints,
    comparisons,
    condensing,
    conversation,
    peers,
    refusals,
    report,
    resume,
    shell,
    startup,
    steps,
    stores,
)
from benchmarks.bench import PROTOCOLS, Bench
from benchmarks.model import Model
from benchmarks.process import adopt_orphans
from benchmarks.report import Figure

README = Path(__file__).with_name("README.md")
RESULTS = Path(__file__).with_name("results.json")
PARTS = (
    "startup",
    "steps",
    "long",
    "stores",
    "resume",
    "conversation",
    "shell",
    "checkpoints",
    "bare",
    "peers",
    "condensing",
    "refusals",
    "batch",
)
Notes = list[str]


def main() -> int:
    """0 when every figure is within its limit, 1 otherwise."""
    options = _parser().parse_args()
    wanted = options.only or [part for part in PARTS if part != "long" or not options.quick]
    began = time.monotonic()
    adopt_orphans()
    figures: list[Figure] = []
    left_out: Notes = []
    folder = tempfile.TemporaryDirectory(prefix="agent-bench-", dir=options.scratch)
    with folder as scratch, Model() as model:
        bench = Bench(model, Path(scratch))
        for part in wanted:
            print(f"measuring: {part}", file=sys.stderr, flush=True)
            found, notes = _measures(bench, options)[part]()
            figures += found
            left_out += notes
    text = report.summary(figures, left_out)
    print(text)
    if options.readme:
        report.into_readme(README, text)
    report.write(options.output, figures, left_out, time.monotonic() - began)
    return int(any(one.ok is False for one in figures))


def _measures(
    bench: Bench, options: argparse.Namespace
) -> dict[str, Callable[[], tuple[list[Figure], Notes]]]:
    """What each part does, more often in a full run."""
    quick = options.quick
    return {
        "startup": lambda: (startup.measure(bench, 10 if quick else 20), []),
        "steps": lambda: (steps.measure(bench, 3 if quick else 7), []),
        "long": lambda: ([f for p in PROTOCOLS for f in steps.measure_long(bench, p)], []),
        "stores": lambda: stores.measure(bench, 3 if quick else 7),
        "resume": lambda: (resume.measure(bench, 3 if quick else 10), []),
        "conversation": lambda: (conversation.measure(bench), []),
        "shell": lambda: (shell.measure(bench), []),
        "checkpoints": lambda: (checkpoints.measure(bench.scratch), []),
        "bare": lambda: comparisons.measure(bench, 1 if quick else 3),
        "condensing": lambda: condensing.measure(options.output.parent, quick=quick),
        "refusals": lambda: refusals.measure(quick=quick),
        "batch": lambda: (batch.measure(bench, quick=quick), []),
        "peers": lambda: peers.measure(bench, options.peers, 1 if quick else 3),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, no 3,000 steps")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {PARTS}")
    parser.add_argument("--peers", type=Path, help="folder with other agents to compare with")
    parser.add_argument("--scratch", type=Path, help="where to work (default: the temp folder)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the JSON file to write")
    parser.add_argument("--readme", action="store_true", help="put the tables into README.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
