"""The worker process, which carries out tasks one after another until stdin ends. Orders come in as
lines of JSON, and reports go out in the same form."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NoReturn, TextIO

from agentcli import interrupts
from agentcli.batch.carry_out import Activity, BudgetUsedUp, StoreLost, carry_out, failed
from agentcli.batch.task import Order
from agentcli.errors import AgentError, TurnInterrupted
from agentcli.system import programs


def main(lock: int | None) -> NoReturn:
    """Serve until stdin ends. The descriptor `lock` keeps a file locked as long as this process
    lives; its children don't inherit it."""
    if lock is not None:
        os.set_inheritable(lock, False)
    programs.harden_process()
    interrupts.install()
    # What a library prints must not be taken for a report: it goes to stderr.
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    code = 0
    try:
        _serve(reports)
        interrupts.mark_outcome_decided()
    except TurnInterrupted as interrupt:
        code = interrupt.exit_code
    except BrokenPipeError:
        code = 1
    # The interpreter's own shutdown would do nothing that is needed.
    os._exit(code)


def _serve(reports: TextIO) -> None:
    """Carry out orders. Raises TurnInterrupted if stdin ends while one is carried out."""
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    at_work, alone = threading.Event(), threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(line)
        alone.set()
        orders.put("")
        if at_work.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=listen, daemon=True).start()
    while line := orders.get():
        at_work.set()
        if alone.is_set():
            return
        _carry_out(Order.model_validate_json(line), reports)
        at_work.clear()


def _carry_out(order: Order, reports: TextIO) -> None:
    def tell(doing: Activity) -> None:
        _report(reports, order, {"doing": asdict(doing)})

    try:
        result = carry_out(order, tell)
    except BudgetUsedUp as need:
        _report(reports, order, {"needs_money": need.spent_usd})
        return
    except StoreLost as lost:
        _report(reports, order, {"store_lost": str(lost)})
        return
    except Exception as error:
        # A bug ends this task but not the batch; the traceback goes to the log.
        traceback.print_exc()
        result = failed(order, AgentError(f"internal error: {type(error).__name__}: {error}"))
    with interrupts.shield():
        _report(reports, order, {"result": result.model_dump(mode="json")})


def _report(reports: TextIO, order: Order, what: Mapping[str, Any]) -> None:
    reports.write(json.dumps({"id": order.task.id, **what}) + "\n")
    reports.flush()
