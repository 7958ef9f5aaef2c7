"""Run a batch from the command line: show its progress, then its summary."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from agentcli import interrupts
from agentcli.app.configuration.config import parse_assignments
from agentcli.batch.ledger import Ledger
from agentcli.batch.start import BatchRequest, run_batch
from agentcli.batch.summary import table
from agentcli.batch.task import Order
from agentcli.cli.batch.progress import BatchProgress
from agentcli.cli.flags import Flags
from agentcli.errors import TurnInterrupted
from agentcli.ui.sanitize import printable
from agentcli.ui.summary import count

_UNFINISHED = 6


def run(
    flags: Flags,
    tasks: Path,
    out: Path,
    workers: int | None,
    *,
    budget_usd: float | None,
    predictions: Path | None,
    retry: bool,
    ray: str | None,
    as_json: bool,
) -> int:
    """Run the batch; return 0 when all tasks succeeded, 1 when some failed, 6 when the budget ran
    out first."""
    assigned = parse_assignments(flags.assignments)
    values = {**assigned, **flags.settings()}
    wanted = BatchRequest(tasks, out, workers, values, budget_usd, predictions, retry, ray)
    quiet = flags.quiet
    with ExitStack() as ending:

        def watch(orders: Sequence[Order], ledger: Ledger) -> BatchProgress:
            progress = BatchProgress(sys.stderr, orders, ledger, quiet=quiet)
            ending.callback(progress.close)
            ending.enter_context(interrupts.around_stop(progress.suspend, progress.resume))
            return progress

        def tell(what: str) -> None:
            if not quiet:
                print(f"agent: {printable(what, multiline=False)}", file=sys.stderr)

        try:
            summary = run_batch(wanted, watch, tell)
        except TurnInterrupted:
            ending.close()
            print("agent: the same command goes on with what is left", file=sys.stderr)
            raise
    if as_json:
        print(json.dumps(summary.as_dict(), indent=2))
    else:
        print(table(summary.rows()))
    if summary.left:
        left = f"{count(len(summary.left), 'task')} {'have' if len(summary.left) > 1 else 'has'}"
        print(f"agent: {left} no result: the budget ran out", file=sys.stderr)
        print("  to continue, run the same command with a higher --max-budget-usd", file=sys.stderr)
        return _UNFINISHED
    return 0 if summary.succeeded == len(summary.results) else 1
