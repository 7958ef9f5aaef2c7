"""`agent batch`: a line per finished task and, at a terminal, live rows for running ones; then the
summary.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TextIO

from agentcli import interrupts
from agentcli.batch.batch import BatchRequest, run_batch
from agentcli.batch.results import Ledger, table
from agentcli.batch.task import Activity, Order, Result
from agentcli.errors import TurnInterrupted
from agentcli.ui.screen import SPINNER, LiveRegion, Screen
from agentcli.ui.summary import count, duration, money
from agentcli.ui.text import Line, Span, Style, printable, say_note

_MOST_ROWS = 16
_REDRAW_S = 0.1
_STYLES: dict[str, Style] = {"passed": "green", "finished": "green", "limit": "yellow"}


class BatchProgress:
    """A `Watcher` that shows progress on `stream`; it shows nothing when `quiet`."""

    def __init__(
        self, stream: TextIO, orders: Sequence[Order], ledger: Ledger, *, quiet: bool
    ) -> None:
        rows = LiveRegion(stream, most_rows=_MOST_ROWS)
        self.screen = Screen(stream, region=rows, live=not quiet)
        self._quiet = quiet
        self._began = time.monotonic()
        self._drawn_at = 0.0
        self._all = len(orders)
        self._ids = {order.task.id for order in orders}
        self._width = min(max((len(name) for name in self._ids), default=0), 30)
        self._ledger = ledger
        self._at_work: dict[str, tuple[float, Activity]] = {}
        if earlier := len(self._ids & self._ledger.results.keys()):
            self._line([Span(f"{earlier} of {count(self._all, 'task')} done before", "dim")])

    # --- what happens

    def begun(self, task_id: str) -> None:
        self._at_work[task_id] = (time.monotonic(), Activity("begins"))

    def doing(self, task_id: str, doing: Activity) -> None:
        if task_id in self._at_work:
            self._at_work[task_id] = (self._at_work[task_id][0], doing)
            self.tick()

    def set_aside(self, task_id: str, why: str) -> None:
        self._at_work.pop(task_id, None)
        self._line([Span(f"… {task_id.ljust(self._width)}  "), Span(printable(why), "dim")])

    def done(self, result: Result) -> None:
        self._at_work.pop(result.id, None)
        style: Style = _STYLES.get(result.outcome, "red")
        facts = [count(result.steps, "step"), money(result.cost_usd), duration(result.duration_s)]
        if result.outcome == "error" and result.error:
            facts = [printable(result.error, multiline=False)]
        mark = "✓" if result.succeeded else "✗"
        self._line(
            [
                Span(f"{mark} {result.id.ljust(self._width)}  "),
                Span(result.outcome.ljust(12), style),
                Span(f"  {' · '.join(facts)}", "dim"),
            ]
        )

    def tick(self) -> None:
        now = time.monotonic()
        if self.screen.live and now - self._drawn_at >= _REDRAW_S:
            self._drawn_at = now
            self.screen.flush(self._rows(now))

    def stopping(self, at_work: int) -> None:
        if self.screen.live and at_work:
            told = f"stopping: {count(at_work, 'task')} at work will go on where it is now"
            self.screen.flush([self.screen.row([Span(told, "dim")])])

    def close(self) -> None:
        """Remove the live rows; nothing more is shown."""
        if not self._quiet:
            self.screen.flush()

    # --- how it is shown

    def _line(self, line: Line) -> None:
        if self._quiet:
            return
        self.screen.put("call", [line], whole=False)
        self.screen.flush(self._rows(time.monotonic()) if self.screen.live else ())

    def _rows(self, now: float) -> list[str]:
        spinner = SPINNER[int(now * 10) % len(SPINNER)]
        rows = []
        for task_id, (since, doing) in self._at_work.items():
            facts = [duration(now - since)]
            if doing.steps:
                facts += [count(doing.steps, "step"), money(doing.cost_usd)]
            told = printable(doing.text, multiline=False)
            head = f"{spinner} {task_id.ljust(self._width)}  "
            rows.append([Span(head), Span(f"{' · '.join(facts)}  ", "dim"), Span(told)])
        return [self.screen.row(row) for row in [*rows[: _MOST_ROWS - 1], self._totals(now)]]

    def _totals(self, now: float) -> Line:
        results = [self._ledger.results[i] for i in self._ids & self._ledger.results.keys()]
        good = sum(result.succeeded for result in results)
        facts = [f"{len(results)} of {count(self._all, 'task')}", f"{good} succeeded"]
        costs = [result.cost_usd for result in results if result.session_id]
        if costs and None not in costs:
            facts.append(money(sum(cost or 0.0 for cost in costs)))
        return [Span(" · ".join([*facts, duration(now - self._began)]), "dim")]


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
