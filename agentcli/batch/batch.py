"""Hands tasks to workers within one budget, and records their results as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from agentcli.batch.carry_out import failed
from agentcli.batch.ledger import Ledger
from agentcli.batch.money import SharedBudget
from agentcli.batch.task import Activity, Order, Report, Result
from agentcli.errors import AgentError, SessionError, TurnInterrupted
from agentcli.interrupts import shield

_TICK_S = 0.25
_MOST_LOST = 2
"""How many processes a task may lose before it is given up."""
_LEAST_USD = 1e-6


class Workers(Protocol):
    """Whoever carries out tasks. `close` leaves what is at work so that it can be continued."""

    @property
    def count(self) -> int:
        """How many tasks can be carried out at once."""

    def begin(self, order: Order) -> None:
        """Have one worker carry out the order. The caller begins at most `count` at once."""

    def reports(self, seconds: float) -> Sequence[Report]:
        """Return what there is to report, waiting at most so many seconds."""

    def close(self) -> None: ...


class Watcher(Protocol):
    """Shows how the batch goes."""

    def begun(self, task_id: str) -> None: ...
    def doing(self, task_id: str, doing: Activity) -> None: ...
    def set_aside(self, task_id: str, why: str) -> None: ...
    def done(self, result: Result) -> None: ...
    def tick(self) -> None: ...
    def stopping(self, at_work: int) -> None:
        """The batch was interrupted, and `at_work` tasks are recording where they are."""


class Batch:
    """Carries out the `orders` that have no result yet. `budget` knows what was spent before."""

    def __init__(
        self,
        orders: Sequence[Order],
        ledger: Ledger,
        budget: SharedBudget,
        workers: Workers,
        watcher: Watcher,
    ) -> None:
        self._waiting = deque(order for order in orders if order.task.id not in ledger.results)
        self._ledger = ledger
        self._budget = budget
        self._workers = workers
        self._watcher = watcher
        self._at_work: dict[str, Order] = {}
        self._waiting_for_money: deque[Order] = deque()
        """They used up their share; others may leave something for them."""
        self._retried: set[str] = set()
        """Tasks that already had their one attempt with all the money left."""
        self._lost: dict[str, int] = {}

    def run(self) -> None:
        """Run until each task has a result or the money is not enough for another one. Raises
        SessionError if sessions can't be stored or a result can't be written, TurnInterrupted."""
        try:
            self._run()
        except TurnInterrupted:
            self._watcher.stopping(len(self._at_work))
            raise

    def _run(self) -> None:
        while self._waiting or self._at_work or self._retry_one_for_money():
            self._begin()
            for report in self._workers.reports(_TICK_S):
                with shield():
                    self._take(report)
            self._watcher.tick()

    def _begin(self) -> None:
        while self._waiting and (free := self._workers.count - len(self._at_work)) > 0:
            order = self._waiting.popleft()
            shares = min(free, len(self._waiting) + 1)
            budget = self._budget.grant(order.task.id, order.own_usd, shares)
            if self._budget.is_spent(order.task.id):
                self._set_aside_for_money(order)
                continue
            order = order.model_copy(update={"budget_usd": budget})
            self._at_work[order.task.id] = order
            self._watcher.begun(order.task.id)
            self._workers.begin(order)

    def _take(self, report: Report) -> None:
        if report.doing is not None:
            self._watcher.doing(report.task_id, report.doing)
            return
        order = self._at_work.pop(report.task_id)
        if report.store_lost:
            hint = "fix that, then run the same command again for what is left"
            raise SessionError(f"no session can be kept: {report.store_lost}", hint=hint)
        if report.lost:
            self._take_lost(order, report.lost)
        elif report.spent_usd is not None:
            self._budget.note(order.task.id, report.spent_usd)
            self._set_aside_for_money(order)
        elif report.result is not None:
            self._finish(report.result)

    def _take_lost(self, order: Order, how: str) -> None:
        """Continue the task where it was, unless it has lost one process after another."""
        times = self._lost[order.task.id] = self._lost.get(order.task.id, 0) + 1
        if times > _MOST_LOST:
            self._finish(failed(order, AgentError(how)))
            return
        # What it has spent is not known here, so its share stays set aside and does not grow.
        self._watcher.set_aside(order.task.id, how)
        self._waiting.appendleft(order)

    def _finish(self, result: Result) -> None:
        self._ledger.add(result)
        self._budget.note(result.id, result.spent_usd)
        self._watcher.done(result)

    def _set_aside_for_money(self, order: Order) -> None:
        self._budget.release(order.task.id)
        self._waiting_for_money.append(order)
        self._watcher.set_aside(order.task.id, "waits for money that others may leave")

    def _retry_one_for_money(self) -> bool:
        """Give all that is left to one task that waits for money; each gets this once. Return False
        if there is none."""
        for order in list(self._waiting_for_money):
            fresh = order.task.id not in self._retried
            if fresh and self._budget.left_usd() > _LEAST_USD:
                self._retried.add(order.task.id)
                self._waiting_for_money.remove(order)
                self._waiting.append(order)
                return True
        return False
