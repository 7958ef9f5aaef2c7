"""Run a batch from the command line: show its progress, then its summary."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from agentcli import interrupts
from agentcli.batch.ledger import Ledger
from agentcli.batch.start import BatchRequest, run_batch
from agentcli.batch.summary import table
from agentcli.batch.task import Order
from agentcli.cli.batch.progress import BatchProgress
from agentcli.errors import TurnInterrupted
from agentcli.ui.sanitize import printable, say_note
from agentcli.ui.summary import count

_UNFINISHED = 6


def run(request: BatchRequest, *, quiet: bool, as_json: bool) -> int:
    """Run the batch; return 0 when all tasks succeeded, 1 when some failed, 6 when the budget ran
    out first."""
    with ExitStack() as ending:

        def watch(orders: Sequence[Order], ledger: Ledger) -> BatchProgress:
            progress = BatchProgress(sys.stderr, orders, ledger, quiet=quiet)
            ending.callback(progress.close)
            ending.enter_context(
                interrupts.around_stop(progress.screen.suspend, progress.screen.resume)
            )
            return progress

        def tell(what: str) -> None:
            if not quiet:
                say_note(printable(what, multiline=False))

        try:
            summary = run_batch(request, watch, tell)
        except TurnInterrupted:
            ending.close()
            say_note("run the same command again for what is left")
            raise
    if as_json:
        print(json.dumps(summary.as_dict(), indent=2))
    else:
        print(table(summary.rows()))
    if summary.left:
        left = f"{count(len(summary.left), 'task')} {'have' if len(summary.left) > 1 else 'has'}"
        say_note(f"{left} no result: the budget ran out")
        print("  to continue, run the same command with a higher --max-budget-usd", file=sys.stderr)
        return _UNFINISHED
    return 0 if summary.succeeded == len(summary.results) else 1
