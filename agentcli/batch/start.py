"""One start of a batch: what is there is gone on with, what is not is begun."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.app.builders import builder_in
from agentcli.batch.batch import Batch, Watcher
from agentcli.batch.cluster.errand import Cluster
from agentcli.batch.cluster.workers import RayWorkers, require_reachable
from agentcli.batch.folders import BatchFolders
from agentcli.batch.ledger import Ledger, write_predictions
from agentcli.batch.local_workers import LocalWorkers
from agentcli.batch.locking import locked
from agentcli.batch.money import SharedBudget
from agentcli.batch.place import begun
from agentcli.batch.preparing import prepared
from agentcli.batch.summary import Summary, markdown, plot
from agentcli.batch.task import Order
from agentcli.batch.tasks_file import read_tasks
from agentcli.batch.workers import Workers
from agentcli.errors import SessionError, UsageError, os_error_text
from agentcli.files.private import replace_atomically
from agentcli.llm.catalog import Catalog
from agentcli.llm.spending import spent_usd
from agentcli.sessions.search.finder import exists, state_of
from agentcli.system.homes import state_home
from agentcli.system.programs import person_environ


@dataclass(frozen=True)
class Wanted:
    """`workers`: tasks at once. `values`: settings for all tasks by dotted key. `predictions`: a
    file for them as SWE-bench takes them. `retry`: tasks that came to an error go on. `ray`: the
    address of the cluster that carries them out, in place of this machine."""

    tasks: Path
    out: Path
    workers: int | None
    values: Mapping[str, Any]
    budget_usd: float | None = None
    predictions: Path | None = None
    retry: bool = False
    ray: str | None = None


def run_batch(
    wanted: Wanted,
    watch: Callable[[Sequence[Order], Ledger], Watcher],
    tell: Callable[[str], None],
) -> Summary:
    """Carry out the tasks that have no result. `watch` makes whoever is shown how it goes, `tell`
    is told what takes long before that. Raises UsageError, ConfigError and SessionError before
    anything is begun; TurnInterrupted when all that was at work can be gone on with."""
    cluster = None if wanted.ray is None else Cluster(wanted.ray, wanted.workers)
    if cluster is not None:
        require_reachable(cluster)
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
        if cluster is not None:
            workers = RayWorkers(cluster, person_environ(), folders.out, folders.log, tell)
        else:
            workers = LocalWorkers(wanted.workers or 1, person_environ(), folders.log, lock)
        try:
            with closing(workers):
                Batch(orders, ledger, budget, workers, watch(orders, ledger)).run()
        except BaseException:
            # What ended the batch is told, a disk that is full for instance, not what follows.
            with suppress(SessionError):
                _write(wanted, folders, _summary(orders, ledger))
            raise
        summary = _summary(orders, ledger)
        _write(wanted, folders, summary)
        return summary


def _require_place_for(predictions: Path | None) -> None:
    """Before anything is paid for."""
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
    wanted: Wanted,
) -> None:
    """What earlier starts have spent, on tasks without a result too. Raises ConfigError when a
    price is not known that is needed for that."""
    if wanted.budget_usd is None:
        return
    settings = builder_in(folders.out, wanted.values)[0].settings
    catalog = Catalog(settings.prices)
    for result in ledger.results.values():
        budget.note(result.id, result.spent_usd)
    for order in orders:
        known = begun(folders, order.task.id)
        if known is None or order.task.id in ledger.results:
            continue
        session = state_home(person_environ()) / "sessions" / known.session
        if exists(session):
            state = state_of(session)
            spent = spent_usd(state.metrics_with_children, catalog) + state.abandoned_usd
            budget.note(order.task.id, spent)


def _summary(orders: Sequence[Order], ledger: Ledger) -> Summary:
    results = [ledger.results.get(order.task.id) for order in orders]
    left = [order.task.id for order in orders if order.task.id not in ledger.results]
    return Summary([result for result in results if result is not None], left)


def _write(wanted: Wanted, folders: BatchFolders, summary: Summary) -> None:
    try:
        replace_atomically(folders.summary, markdown(summary).encode())
        replace_atomically(folders.plot, plot(summary).encode())
    except OSError as error:
        told = f"the summary can't be written to {folders.out}: {os_error_text(error)}"
        raise SessionError(told, hint="all results are kept: the same command writes it") from error
    if wanted.predictions is not None:
        write_predictions(wanted.predictions, summary.results)
