"""A batch: hands tasks to workers within one budget, and records their results as they come."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentcli.app.builders import load_builder
from agentcli.batch.folders import BatchFolders, locked, task_record
from agentcli.batch.preparing import prepared, read_tasks
from agentcli.batch.ray_workers import RayWorkers, require_reachable
from agentcli.batch.results import Ledger, Summary, markdown, plot, write_predictions
from agentcli.batch.task import Activity, Order, Report, Result
from agentcli.batch.worker import failed
from agentcli.batch.worker_processes import LocalWorkers
from agentcli.errors import AgentError, SessionError, TurnInterrupted, UsageError, os_error_text
from agentcli.interrupts import shield
from agentcli.llm.catalog import Catalog
from agentcli.llm.spending import spent_usd
from agentcli.sessions.finder import exists, state_of
from agentcli.system.programs import user_environ
from agentcli.workspace.private import replace_atomically

_LEAST_USD = 1e-6


class SharedBudget:
    """A budget of `total_usd`; None: no limit. What a working session may still spend is set aside
    for it, so that all of them together stay within the total."""

    def __init__(self, total_usd: float | None) -> None:
        self._total = total_usd
        self._spent: dict[str, float] = {}
        """What each task is known to have spent."""
        self._granted: dict[str, float] = {}
        """What the session of each working task may cost in all."""

    def note(self, task_id: str, spent_usd: float) -> None:
        """Record what a task has cost so far; it is not at work now."""
        self._granted.pop(task_id, None)
        self._spent[task_id] = spent_usd

    def grant(self, task_id: str, own_usd: float | None, shares: int) -> float | None:
        """Set money aside for a task and return what its session may cost in all: at most
        `own_usd`, and at most what it has spent plus an equal share, one of `shares`, of what is
        left; None without a limit. What a lost process left set aside for the task is not granted
        twice."""
        if self._total is None:
            return own_usd
        if task_id not in self._granted:
            most = self._spent.get(task_id, 0.0) + self.left_usd() / shares
            self._granted[task_id] = most if own_usd is None else min(own_usd, most)
        return self._granted[task_id]

    def release(self, task_id: str) -> None:
        """Set nothing aside for a task any more."""
        self._granted.pop(task_id, None)

    def is_spent(self, task_id: str) -> bool:
        """Return whether a task has already spent its share."""
        if self._total is None:
            return False
        return self._granted[task_id] - self._spent.get(task_id, 0.0) < _LEAST_USD

    def left_usd(self) -> float:
        """Return what is neither spent nor set aside."""
        if self._total is None:
            return float("inf")
        taken = {**self._spent, **self._granted}
        return max(0.0, self._total - sum(taken.values()))


_TICK_S = 0.25
_MOST_LOST = 2
"""How many processes a task may lose before it is given up."""


class Workers(Protocol):
    """Carries out tasks. `close` stops running tasks so that they can be continued."""

    @property
    def count(self) -> int:
        """How many tasks can be carried out at once."""

    def begin(self, order: Order) -> None:
        """Have one worker carry out the order. The caller begins at most `count` at once."""

    def reports(self, seconds: float) -> Sequence[Report]:
        """Return the next reports, waiting at most `seconds`."""

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
            while self._waiting or self._at_work or self._retry_one_for_money():
                self._begin()
                for report in self._workers.reports(_TICK_S):
                    with shield():
                        self._take(report)
                self._watcher.tick()
        except TurnInterrupted:
            self._watcher.stopping(len(self._at_work))
            raise

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
        fresh = [each for each in self._waiting_for_money if each.task.id not in self._retried]
        if not fresh or self._budget.left_usd() <= _LEAST_USD:
            return False
        self._retried.add(fresh[0].task.id)
        self._waiting_for_money.remove(fresh[0])
        self._waiting.append(fresh[0])
        return True


@dataclass(frozen=True)
class BatchRequest:
    """What the user asked for. `workers`: how many tasks at once. `values`: settings for all tasks
    by dotted key. `predictions`: a file for SWE-bench. `retry`: continue tasks that ended in an
    error. `ray`: the address of the cluster that does the tasks instead of this machine."""

    tasks: Path
    out: Path
    workers: int | None
    values: Mapping[str, Any]
    budget_usd: float | None = None
    predictions: Path | None = None
    retry: bool = False
    ray: str | None = None


def run_batch(
    wanted: BatchRequest,
    watch: Callable[[Sequence[Order], Ledger], Watcher],
    tell: Callable[[str], None],
) -> Summary:
    """Carry out the tasks that have no result. `watch` makes the watcher that shows how it goes;
    `tell` is told what takes long before that. Raises UsageError and ConfigError before anything is
    begun, SessionError, and TurnInterrupted; after these two the same request continues the
    tasks."""
    if wanted.ray is not None:
        require_reachable(wanted.ray)
    listed = read_tasks(wanted.tasks)
    if (file := wanted.predictions) is not None and (
        file.is_dir() or not os.access(file.absolute().parent, os.W_OK | os.X_OK)
    ):
        raise UsageError(f"--swe-bench {file}: no file can be written there")
    folders = BatchFolders(wanted.out.resolve())
    with locked(folders) as lock:
        ledger = Ledger(folders.out / "results.jsonl")
        orders = prepared(wanted.tasks, listed, folders, wanted.values, wanted.budget_usd, tell)
        if wanted.retry:
            again = {name for name, each in ledger.results.items() if each.outcome == "error"}
            ledger.forget(again & {order.task.id for order in orders})
            orders = [order.model_copy(update={"again": True}) for order in orders]
        budget = SharedBudget(wanted.budget_usd)
        _note_spent(budget, folders, orders, ledger, wanted)
        workers: Workers
        if wanted.ray is not None:
            workers = RayWorkers(wanted.ray, wanted.workers, user_environ(), folders, tell)
        else:
            workers = LocalWorkers(wanted.workers or 1, user_environ(), folders.log, lock)
        try:
            with closing(workers):
                Batch(orders, ledger, budget, workers, watch(orders, ledger)).run()
        except BaseException:
            # The error that ended the batch matters, such as a full disk, not one that follows.
            with suppress(SessionError):
                _write(wanted, folders, _summary(orders, ledger))
            raise
        summary = _summary(orders, ledger)
        _write(wanted, folders, summary)
        return summary


def _note_spent(
    budget: SharedBudget,
    folders: BatchFolders,
    orders: Sequence[Order],
    ledger: Ledger,
    wanted: BatchRequest,
) -> None:
    """Note what earlier starts have spent, also on tasks without a result. Raises ConfigError if a
    price that is needed for that is not known."""
    if wanted.budget_usd is None:
        return
    catalog = Catalog(load_builder(folders.out, wanted.values)[0].settings.prices)
    for result in ledger.results.values():
        budget.note(result.id, result.spent_usd)
    for order in orders:
        known = task_record(folders, order.task.id)
        if known is None or order.task.id in ledger.results:
            continue
        if exists(known.session_folder):
            state = state_of(known.session_folder)
            spent = spent_usd(state.metrics_with_children, catalog) + state.abandoned_usd
            budget.note(order.task.id, spent)


def _summary(orders: Sequence[Order], ledger: Ledger) -> Summary:
    results = [ledger.results.get(order.task.id) for order in orders]
    left = [order.task.id for order in orders if order.task.id not in ledger.results]
    return Summary([result for result in results if result is not None], left)


def _write(wanted: BatchRequest, folders: BatchFolders, summary: Summary) -> None:
    try:
        replace_atomically(folders.out / "summary.md", markdown(summary).encode())
        replace_atomically(folders.out / "outcome.svg", plot(summary).encode())
    except OSError as error:
        told = f"the summary can't be written to {folders.out}: {os_error_text(error)}"
        raise SessionError(told, hint="all results are kept: the same command writes it") from error
    if wanted.predictions is not None:
        write_predictions(wanted.predictions, summary.results)
