"""The program that hands tasks to Ray until stdin ends, and what runs on the cluster's machines.

Orders come in as lines of JSON, and reports go out in the same form.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agentcli.app.configuration.store import use_configured_store
from agentcli.batch.folders import BatchFolders
from agentcli.batch.ray_workers import Requirements, host, probes, requirements_here, why_unfit
from agentcli.batch.task import Activity, Order, Report
from agentcli.batch.worker import failed
from agentcli.batch.worker_processes import LocalWorkers, Orders, send_line, take_stdout
from agentcli.errors import AgentError, ConfigError, os_error_text
from agentcli.system.homes import state_home

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
    """Run or continue a task in a worker process, and return the report of its end; None if it was
    stopped. Raises WorkerLost."""
    if why := why_unfit(given):
        raise WorkerLost(f"{host()} can't: {why}")
    wanted = Order.model_validate_json(order)
    news = _BoardClient(wanted.task.id, board)
    if news.stops(wait_s=_ANSWER_S):
        return None
    if wanted.out not in _kept:
        _dismiss()
        log = BatchFolders(Path(wanted.out)).internal / f"log-{host()}"
        _kept[wanted.out] = LocalWorkers(1, {**os.environ, **given.environ}, log)
    workers = _kept[wanted.out]
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
    """Connection to the board, on which only the display and an orderly stop depend."""

    def __init__(self, task_id: str, board: Any) -> None:
        self._task_id = task_id
        self._board = board
        self.doing: Activity | None = Activity(f"begins on {host()}")
        """What to tell next."""
        self._asked: Any = None
        self._asked_at = 0.0

    def stops(self, wait_s: float = 0) -> bool:
        """Return whether the task is to stop; False if unknown after `wait_s`."""
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


def _dismiss() -> None:
    """End the worker process; its task is recorded and can be continued."""
    while _kept:
        _kept.popitem()[1].close()


_RETRIES = 5
"""How often Ray tries a task again whose machine or process was lost; each try continues the
last."""
_PLACES_EVERY_S = 5.0
_LOOK_LIMIT_S = 120.0
_STOP_LIMIT_S = 25.0


def main(address: str, out: str) -> NoReturn:
    """Run the driver until all tasks at work have stopped. The batch notices if it ends early; the
    log then has the traceback."""
    driver = _Driver(take_stdout())
    try:
        driver.join(address, Path(out))
        driver.serve()
    except ConfigError as error:
        driver.report(refused={"message": error.message, "hint": error.hint})
    except BrokenPipeError:
        # Nobody reads any more.
        pass
    finally:
        driver.probes.close()
    os._exit(0)


class _Driver:
    def __init__(self, reports: TextIO) -> None:
        self._reports = reports
        self._running: dict[Any, Order] = {}
        self._requirements: Requirements
        self.probes = ExitStack()
        """They stay as long as there are tasks, as machines may join at any time."""
        self._board: Any = None
        self._fetched: Any = None
        self._counted_at = 0.0
        self._carry_out: Any = None

    def report(self, **what: object) -> None:
        send_line(self._reports, json.dumps(what))

    def join(self, address: str, out: Path) -> None:
        """Join the cluster. Raises ConfigError if it can't be reached, or if one of its machines
        can't carry out tasks."""
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise ConfigError(
                f"the Ray cluster at {address} can't be joined: {_one_line(error)}",
                hint="a batch is started on a machine of the cluster, with its version of Ray",
            ) from error
        self.report(joined=address)
        try:
            tokens = self.probes.enter_context(probes([out / ".batch", state_home(os.environ)]))
        except OSError as error:
            raise ConfigError(os_error_text(error)) from error
        self._requirements = requirements_here(os.environ, tokens)
        self._require_fit()
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        board = ray.remote(Board)
        self._board = board.options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
        self._carry_out = ray.remote(carry_out_here).options(
            num_cpus=1,
            max_retries=_RETRIES,
            retry_exceptions=[WorkerLost],
            scheduling_strategy="SPREAD",
        )
        self._count_places()

    def _require_fit(self) -> None:
        looking = {}
        for each in ray.nodes():
            if each["Alive"] and each["Resources"].get("CPU"):
                there = NodeAffinitySchedulingStrategy(each["NodeID"], soft=False)
                look = ray.remote(why_unfit).options(num_cpus=0, scheduling_strategy=there)
                looking[look.remote(self._requirements)] = each["NodeManagerAddress"]
        if not looking:
            raise ConfigError(
                "the Ray cluster has no machine with a CPU for tasks",
                hint="ray start --num-cpus N says how many tasks at once a machine is to hold",
            )
        done, late = ray.wait(list(looking), num_returns=len(looking), timeout=_LOOK_LIMIT_S)
        faults = [f"{looking[ref]}: {why}" for ref in done if (why := _why_unfit(ref))]
        faults += [f"{looking[ref]}: it does not answer" for ref in late]
        if faults:
            rest = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
            raise ConfigError(
                f"machines of the cluster can't carry out tasks: {'; '.join(faults[:3])}{rest}",
                hint="docs/scale.md says what each machine needs",
            )

    def serve(self) -> None:
        """Pass on orders and reports until stdin ends. Raises BrokenPipeError if nobody reads the
        reports."""
        orders = Orders()
        while not orders.ended.is_set():
            self._submit(orders)
            self._pass_on_news()
            self._count_places()
            if not self._running:
                time.sleep(_TICK_S)
                continue
            refs = list(self._running)
            done, _ = ray.wait(refs, num_returns=len(refs), timeout=_TICK_S)
            for ref in done:
                self._take(ref, self._running.pop(ref))
        self._stop()

    def _submit(self, orders: Orders) -> None:
        while not orders.lines.empty() and (line := orders.lines.get()):
            order = Order.model_validate_json(line)
            use_configured_store(order.values)
            self._running[self._carry_out.remote(line, self._requirements, self._board)] = order
            waits = Activity("waits for a place in the cluster")
            self._send(Report(task_id=order.task.id, doing=waits))

    def _take(self, ref: Any, order: Order) -> None:
        try:
            ended: Report | None = ray.get(ref)
        except ray.exceptions.RayError as error:
            ended = Report(task_id=order.task.id, result=failed(order, AgentError(_why(error))))
        if ended is not None:
            self._send(ended)

    def _send(self, report: Report) -> None:
        send_line(self._reports, report.as_line())

    def _pass_on_news(self) -> None:
        """Report what tasks are doing, as far as it is known without waiting."""
        if self._fetched is not None:
            fetched, _ = ray.wait([self._fetched], timeout=0)
            if not fetched:
                return
            at_work = {order.task.id for order in self._running.values()}
            with suppress(ray.exceptions.RayActorError):
                for task_id, doing in ray.get(fetched[0]).items():
                    if task_id in at_work:
                        self._send(Report(task_id=task_id, doing=doing))
        self._fetched = self._board.fetch.remote()

    def _count_places(self) -> None:
        if time.monotonic() - self._counted_at >= _PLACES_EVERY_S:
            self._counted_at = time.monotonic()
            self.report(places=int(ray.cluster_resources().get("CPU", 0)))

    def _stop(self) -> None:
        """Have running tasks record where they are and waiting ones not begin. What does not stop
        in time ends with this process, and continues as after a kill. (Ray's own cancelling sends a
        signal, which is ignored if the machine's Ray was started in the background of a script.)"""
        refs = list(self._running)
        if refs:
            self._board.stop.remote()
            ray.wait(refs, num_returns=len(refs), timeout=_STOP_LIMIT_S)
        ray.shutdown()


def _why_unfit(ref: Any) -> str:
    try:
        return str(ray.get(ref))
    except ray.exceptions.RayError as error:
        return _why(error)


def _why(error: ray.exceptions.RayError) -> str:
    """Return the reason in one line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, ModuleNotFoundError):
        return f"agent is not installed where Ray runs ({cause})"
    if isinstance(cause, WorkerLost):
        return str(cause)
    kind = type(error).__name__
    return {
        "NodeDiedError": "its machine was lost again and again",
        "WorkerCrashedError": "its process of Ray's ended again and again",
        "OutOfMemoryError": "its machine was out of memory again and again",
    }.get(kind, f"{kind}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ray.exceptions.RayTaskError):
        # The last line of the traceback has the error.
        del lines[:-1]
    return " ".join(lines)[:300]
