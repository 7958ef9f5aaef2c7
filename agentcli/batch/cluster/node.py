"""Runs on a machine of the cluster, in one of Ray's processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import ray

from agentcli.batch.cluster.requirements import Requirements, host, why_unfit
from agentcli.batch.folders import BatchFolders
from agentcli.batch.local_workers import LocalWorkers
from agentcli.batch.task import Activity, Order, Report

_TICK_S = 0.25
_TELL_EVERY_S = 1.0
_ANSWER_S = 5.0


class WorkerLost(Exception):
    """The process that carried out the task ended; Ray tries it again, as if its machine were
    lost."""


class Board:
    """An actor that keeps what tasks are doing until the driver fetches it, and whether they are to
    stop. If its machine is lost, an empty one takes its place."""

    def __init__(self) -> None:
        self._doing: dict[str, Activity] = {}
        self._stops = False

    def tell(self, task_id: str, doing: Activity | None) -> bool:
        """Take what a task is doing, and return whether it is to stop."""
        if doing is not None:
            self._doing[task_id] = doing
        return self._stops

    def fetch(self) -> dict[str, Activity]:
        doing, self._doing = self._doing, {}
        return doing

    def stop(self) -> None:
        self._stops = True


def carry_out_here(order: str, given: Requirements, board: Any) -> Report | None:
    """Do a task, or what is left of it, in a worker process, and return how it ended; None if it
    was stopped. Raises WorkerLost."""
    if why := why_unfit(given):
        raise WorkerLost(f"{host()} can't: {why}")
    wanted = Order.model_validate_json(order)
    news = _BoardClient(wanted.task.id, board)
    if news.stops(wait_s=_ANSWER_S):
        return None
    workers = _workers(given, wanted)
    workers.begin(wanted)
    while not news.stops():
        for report in workers.reports(_TICK_S):
            if report.lost:
                _dismiss()
                raise WorkerLost(f"{report.lost} on {host()}")
            if report.doing is None:
                return report
            news.doing = report.doing
    _dismiss()
    return None


class _BoardClient:
    """Speaks with the board. Only what is shown and an orderly stop depend on it."""

    def __init__(self, task_id: str, board: Any) -> None:
        self._task_id = task_id
        self._board = board
        self.doing: Activity | None = Activity(f"begins on {host()}")
        """What to tell next."""
        self._asked: Any = None
        self._asked_at = 0.0

    def stops(self, wait_s: float = 0) -> bool:
        """Return whether the task is to stop, as far as is known within so many seconds."""
        if self._asked is None and time.monotonic() - self._asked_at >= _TELL_EVERY_S:
            self._asked_at = time.monotonic()
            self._asked = self._board.tell.remote(self._task_id, self.doing)
            self.doing = None
        if self._asked is None:
            return False
        answered, _ = ray.wait([self._asked], timeout=wait_s)
        if not answered:
            return False
        self._asked = None
        try:
            return bool(ray.get(answered[0]))
        except ray.exceptions.RayActorError:
            return False


_kept: dict[str, LocalWorkers] = {}
"""The worker process, by output folder, kept for the next task: a start takes half a second."""


def _workers(given: Requirements, order: Order) -> LocalWorkers:
    if order.out not in _kept:
        _dismiss()
        log = BatchFolders(Path(order.out)).log_of(host())
        _kept[order.out] = LocalWorkers(1, {**os.environ, **given.environ}, log)
    return _kept[order.out]


def _dismiss() -> None:
    """End the worker process; what it does is recorded and can be continued."""
    while _kept:
        _kept.popitem()[1].close()
