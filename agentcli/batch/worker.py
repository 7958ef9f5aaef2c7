"""The worker process, which carries out tasks one after another until stdin ends. Orders come in as
lines of JSON, and reports go out in the same form."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from typing import NoReturn, TextIO

from agentcli import interrupts
from agentcli.batch.carry_out import BudgetUsedUp, StoreLost, carry_out, failed
from agentcli.batch.line_program import Orders, send_line, take_stdout
from agentcli.batch.task import Activity, Order, Report
from agentcli.errors import AgentError, TurnInterrupted, internal_error_text, internal_errors
from agentcli.system import programs


def main(lock: int | None) -> NoReturn:
    """Serve until stdin ends. The descriptor `lock` keeps a file locked as long as this process
    lives; its children don't inherit it."""
    if lock is not None:
        os.set_inheritable(lock, False)
    programs.harden_process()
    interrupts.install()
    code = 0
    try:
        _serve(take_stdout())
        interrupts.mark_outcome_decided()
    except TurnInterrupted as interrupt:
        code = interrupt.exit_code
    except BrokenPipeError:
        code = 1
    # The interpreter's own shutdown would do nothing that is needed.
    os._exit(code)


def _serve(reports: TextIO) -> None:
    """Carry out orders. Raises TurnInterrupted if stdin ends while one is carried out."""
    at_work = threading.Event()

    def interrupt() -> None:
        if at_work.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    orders = Orders(interrupt)
    while line := orders.lines.get():
        at_work.set()
        if orders.ended.is_set():
            return
        _carry_out(Order.model_validate_json(line), reports)
        at_work.clear()


def _reported(error: Exception) -> AgentError:
    traceback.print_exc()
    return AgentError(internal_error_text(error))


def _carry_out(order: Order, reports: TextIO) -> None:
    name = order.task.id

    def tell(doing: Activity) -> None:
        send_line(reports, Report(task_id=name, doing=doing).as_line())

    try:
        with internal_errors(_reported, BudgetUsedUp, StoreLost):
            report = Report(task_id=name, result=carry_out(order, tell))
    except BudgetUsedUp as need:
        report = Report(task_id=name, spent_usd=need.spent_usd)
    except StoreLost as lost:
        report = Report(task_id=name, store_lost=str(lost))
    except AgentError as error:
        report = Report(task_id=name, result=failed(order, error))
    with interrupts.shield():
        send_line(reports, report.as_line())
