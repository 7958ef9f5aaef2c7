"""Starts a batch, or continues one that is in the output folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.app.builders import load_builder
from agentcli.batch.batch import Batch, Watcher, Workers
from agentcli.batch.cluster.workers import RayWorkers, require_reachable
from agentcli.batch.folders import BatchFolders
from agentcli.batch.ledger import Ledger, write_predictions
from agentcli.batch.local_workers import LocalWorkers
from agentcli.batch.locking import locked
from agentcli.batch.money import SharedBudget
from agentcli.batch.place import task_record
from agentcli.batch.preparing import prepared
from agentcli.batch.summary import Summary, markdown, plot
from agentcli.batch.task import Order
from agentcli.batch.tasks_file import read_tasks
from agentcli.errors import SessionError, UsageError, os_error_text
from agentcli.llm.catalog import Catalog
from agentcli.llm.spending import spent_usd
from agentcli.sessions.search.finder import exists, state_of
from agentcli.system.programs import user_environ
from agentcli.workspace.private import replace_atomically


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
    _require_place_for(wanted.predictions)
    folders = BatchFolders(wanted.out.resolve())
    with locked(folders) as lock:
        ledger = Ledger(folders.results)
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


def _require_place_for(predictions: Path | None) -> None:
    """Raise UsageError, before anything is paid for, if the file can't be written."""
    if predictions is None:
        return
    folder = predictions.absolute().parent
    if predictions.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--swe-bench {predictions}: no file can be written there")


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
    settings = load_builder(folders.out, wanted.values)[0].settings
    catalog = Catalog(settings.prices)
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
        replace_atomically(folders.summary, markdown(summary).encode())
        replace_atomically(folders.plot, plot(summary).encode())
    except OSError as error:
        told = f"the summary can't be written to {folders.out}: {os_error_text(error)}"
        raise SessionError(told, hint="all results are kept: the same command writes it") from error
    if wanted.predictions is not None:
        write_predictions(wanted.predictions, summary.results)
