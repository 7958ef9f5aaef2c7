"""Tasks handed out to workers, within one budget, and their results taken down as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from agentcli.batch.carry_out import Doing, failed
from agentcli.batch.ledger import Ledger
from agentcli.batch.money import SharedBudget
from agentcli.batch.task import Order, Result
from agentcli.batch.workers import Report, Workers
from agentcli.errors import AgentError, SessionError, TurnInterrupted
from agentcli.interrupts import shield

_TICK_S = 0.25
_MOST_LOST = 2
"""Processes that a task may take with it before it is given up."""
_LEAST_USD = 1e-6


class Watcher(Protocol):
    """Whoever is shown how it goes."""

    def begun(self, task_id: str) -> None: ...
    def doing(self, task_id: str, doing: Doing) -> None: ...
    def set_aside(self, task_id: str, why: str) -> None: ...
    def done(self, result: Result) -> None: ...
    def tick(self) -> None: ...
    def stopping(self, at_work: int) -> None:
        """So many tasks account for an interrupt."""


class Batch:
    """Of the `orders` that have no result yet; `budget` knows what was spent before."""

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
        self._starved: deque[Order] = deque()
        """They used what was set aside for them; others may leave something."""
        self._retried: set[str] = set()
        """They had all that was left."""
        self._lost: dict[str, int] = {}

    def run(self) -> None:
        """Until each has a result or the money is not enough for one more. Raises SessionError when
        sessions can't be kept or a result can't be written, TurnInterrupted."""
        try:
            self._run()
        except TurnInterrupted:
            self._watcher.stopping(len(self._at_work))
            raise

    def _run(self) -> None:
        while self._waiting or self._at_work or self._feed_one():
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
            if self._budget.is_poor(order.task.id):
                self._starve(order)
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
            hint = "the same command goes on with what is left, once that is put right"
            raise SessionError(f"no session can be kept: {report.store_lost}", hint=hint)
        if report.lost:
            self._take_lost(order, report.lost)
        elif report.spent_usd is not None:
            self._budget.note(order.task.id, report.spent_usd)
            self._starve(order)
        elif report.result is not None:
            self._finish(report.result)

    def _take_lost(self, order: Order, how: str) -> None:
        """It goes on where it was, unless it takes one process after the other with it."""
        times = self._lost[order.task.id] = self._lost.get(order.task.id, 0) + 1
        if times > _MOST_LOST:
            self._finish(failed(order, AgentError(how)))
            return
        # What it has spent by now is not known here: that stays set aside, and it gets no more.
        self._watcher.set_aside(order.task.id, how)
        self._waiting.appendleft(order)

    def _finish(self, result: Result) -> None:
        self._ledger.add(result)
        self._budget.note(result.id, result.spent_usd)
        self._watcher.done(result)

    def _starve(self, order: Order) -> None:
        self._budget.release(order.task.id)
        self._starved.append(order)
        self._watcher.set_aside(order.task.id, "waits for money that others may leave")

    def _feed_one(self) -> bool:
        """Give all that is left to one that waits for money, once to each."""
        for order in list(self._starved):
            fresh = order.task.id not in self._retried
            if fresh and self._budget.left_usd() > _LEAST_USD:
                self._retried.add(order.task.id)
                self._starved.remove(order)
                self._waiting.append(order)
                return True
        return False
