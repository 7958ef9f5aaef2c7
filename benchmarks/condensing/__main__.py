"""`python -m benchmarks.condensing`: the tables, the verdicts, and how good the strides are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.condensing import early, report
from benchmarks.condensing.prices import MODELS, listed


def main() -> int:
    """Prints Markdown; 0."""
    options = _parser().parse_args()
    if options.recorded:
        print(*early.report(options.recorded), sep="\n")
        return 0
    plan = report.QUICK if options.quick else report.Plan(need_age=options.need_age)
    models = [listed(name) for name in MODELS]
    rows = report.rows(plan, models, lambda line: print(line, file=sys.stderr, flush=True))
    for steps in plan.lengths:
        for window in plan.windows:
            print(report.table(rows, steps, window), end="\n\n")
    print(*report.verdicts(rows), sep="\n", end="\n\n")
    decided = report.strides(plan, models, options.target)
    print(report.strides_table(decided))
    if options.output:
        report.write(options.output, rows, decided)
        print(f"picture: {report.draw(rows, options.output.with_suffix('.svg'))}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.condensing", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short session")
    parser.add_argument("--output", type=Path, help="the JSON file to write; a picture beside it")
    parser.add_argument(
        "--need-age", type=float, default=4.0, help="median age in steps of what is needed again"
    )
    parser.add_argument(
        "--target", type=float, default=0.5, help="share of the window that strides come down to"
    )
    parser.add_argument(
        "--recorded",
        type=Path,
        metavar="DIR",
        help="price early masking in the sessions recorded there instead (see early.py)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
