"""The worker process, which carries out tasks one after another until stdin ends.

`carry_out` is a function from plain data to plain data. Orders come in as lines of JSON, and
reports go out in the same form.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn, TextIO

from agentcli import interrupts
from agentcli.agent.ending import MAX_BUDGET, MAX_TIME, MAX_TURNS
from agentcli.agent.replies import last_answer
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import load_builder
from agentcli.app.check import Check
from agentcli.app.child_run import Follower, open_for_task
from agentcli.app.configuration.store import use_configured_store
from agentcli.batch.folders import BatchFolders, TaskPlace, TaskRecord, task_record
from agentcli.batch.task import Activity, CheckOutcome, Order, Report, Result, Status
from agentcli.batch.worker_processes import Orders, send_line, take_stdout
from agentcli.errors import (
    AgentError,
    SessionError,
    TurnInterrupted,
    internal_error_text,
    internal_errors,
    os_error_text,
)
from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.events.conversation import newest
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.events.progress import ChildProgress
from agentcli.security.redact import Redactor, masked_values
from agentcli.sessions.finder import exists, state_of
from agentcli.sessions.history import totals
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.sessions.state import AgentState
from agentcli.system import programs
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ

_OVER = (AgentState.FINISHED, AgentState.ERROR)
_PROBE_BYTES = 1 << 16
"""A disk that is not full always takes this much."""
_NO_LIMIT_USD = 1_000_000_000.0
_LIMITS = (MAX_TURNS, MAX_TIME, MAX_BUDGET)


class _BudgetUsedUp(Exception):
    """The session used up its share of the shared budget, and could continue with more."""

    def __init__(self, spent_usd: float) -> None:
        super().__init__(f"{spent_usd} USD are spent")
        self.spent_usd = spent_usd


def carry_out(order: Order, send: Callable[[Report], None]) -> Report:
    """Run or continue the task of `order`, and return the report of its end: a result,
    which also tells what went wrong, or why the task should be continued later. Reports on the way
    are sent. Raises TurnInterrupted when this process is to end."""
    name = order.task.id

    def tell(doing: Activity) -> None:
        send(Report(task_id=name, doing=doing))

    try:
        with internal_errors(_reported, _BudgetUsedUp, OSError):
            return Report(task_id=name, result=_carried_out(order, tell))
    except _BudgetUsedUp as need:
        return Report(task_id=name, spent_usd=need.spent_usd)
    except (AgentError, OSError) as error:
        known = error if isinstance(error, AgentError) else SessionError(os_error_text(error))
        if isinstance(known, SessionError) and (fault := _store_fault()):
            return Report(task_id=name, store_lost=fault)
        return Report(task_id=name, result=failed(order, known))


def _reported(error: Exception) -> AgentError:
    traceback.print_exc()
    return AgentError(internal_error_text(error))


def _store_fault() -> str:
    """Return why no session can be stored, whatever the task; empty if one can."""
    home = state_home(user_environ())
    try:
        exists(home / "sessions" / "none")
        with TemporaryFile(dir=home) as probe:
            probe.write(bytes(_PROBE_BYTES))
    except SessionError as error:
        return error.message
    except OSError as error:
        return f"{home}: {os_error_text(error)}"
    return ""


def failed(order: Order, error: AgentError) -> Result:
    """Return the result of a task that failed with `error`, with what its session used."""
    told = f"{error.message} ({error.hint})" if error.hint else error.message
    result = Result(id=order.task.id, status="error", error=told, exit_code=error.exit_code)
    with suppress(AgentError, OSError):
        known = task_record(BatchFolders(Path(order.out)), order.task.id)
        if known is not None and exists(folder := known.session_folder):
            return result.model_copy(update=_used(read_session(folder)))
    return result


def _carried_out(order: Order, tell: Callable[[Activity], None]) -> Result:
    place = TaskPlace(order)
    with place.held(lambda why: tell(Activity(why))):
        began = time.monotonic()
        use_configured_store(order.values)
        tell(Activity("copying its files"))
        known = place.prepare(state_home(user_environ()))
        folder = known.session_folder
        values = {**order.values, **_budget_setting(order, folder)}
        builder, _ = load_builder(place.workspace, values)
        try:
            _work(builder, folder, order, tell)
            # Made before the check: what that leaves behind is not the agent's work.
            patch = place.patch(known.base)
            outcome = _checked(builder, folder, order, place, tell)
        except BaseException:
            place.add_time(known, time.monotonic() - began)
            raise
        redact = Redactor({*masked_values(user_environ()), *builder.registry().keys()})
        result = _result(order, read_session(folder), outcome, known, time.monotonic() - began)
    return result.model_copy(update={"workspace": str(place.workspace), "patch": redact(patch)})


def _budget_setting(order: Order, folder: Path) -> dict[str, float]:
    """Return the setting of the session's budget. Without one a session keeps its old limit."""
    if order.budget_usd is not None:
        return {"agent.max_budget_usd": order.budget_usd}
    limited = exists(folder) and state_of(folder).max_budget_usd is not None
    return {"agent.max_budget_usd": _NO_LIMIT_USD} if limited else {}


def _work(
    builder: AgentBuilder, folder: Path, order: Order, tell: Callable[[Activity], None]
) -> None:
    def follow(progress: ChildProgress) -> None:
        tell(Activity(progress.doing, progress.steps, progress.cost_usd))

    opened = open_for_task(
        builder,
        folder,
        lambda session: [Follower(session, 0, follow)],
        has_task=lambda events: any(
            isinstance(e, MessageAction) and e.source is Source.USER for e in events
        ),
        is_over=lambda events: _is_over(newest(events, AgentStateChangedObservation), order),
        # Nobody typed the task, so files in /tmp that it names are not shown to the session.
        say=lambda opened: opened.say(order.task.prompt),
    )
    if opened is None:
        return
    with opened:
        ending = opened.work().ending
        state, limits = opened.session.state, opened.agent.limits
    if ending.agent_state is not AgentState.PAUSED or ending.reason in (MAX_TURNS, MAX_TIME):
        return
    if ending.reason != MAX_BUDGET:
        raise TurnInterrupted(ending.reason, ending.exit_code)
    if not _own_budget(order):
        raise _BudgetUsedUp(limits.spent_usd(state) + state.abandoned_usd)


def _is_over(change: AgentStateChangedObservation | None, order: Order) -> bool:
    if change is None:
        return False
    if change.agent_state == AgentState.PAUSED and change.reason == MAX_BUDGET:
        return _own_budget(order)
    if order.again and change.agent_state == AgentState.ERROR:
        return False
    return change.agent_state in _OVER or change.reason in (MAX_TURNS, MAX_TIME)


def _own_budget(order: Order) -> bool:
    """Return whether the order's budget is the task's own limit, not a share of the common one."""
    if order.budget_usd is None:
        return True
    return order.own_usd is not None and order.budget_usd >= order.own_usd


def _checked(
    builder: AgentBuilder,
    folder: Path,
    order: Order,
    place: TaskPlace,
    tell: Callable[[Activity], None],
) -> CheckOutcome | None:
    if order.task.check is None:
        return None
    tell(Activity(f"check: {order.task.check}"))
    containment = builder.containment(folder)
    check = Check(order.task.check, containment.sandbox, containment.environment)
    done = check.run(place.workspace, place.private_folder)
    tail = Redactor(masked_values(builder.environ))(done.tail)
    shown = {**done.as_dict(), "duration_s": round(done.duration_s, 3), "tail": tail}
    return CheckOutcome.model_validate(shown)


def _result(
    order: Order,
    record: SessionRecord,
    outcome: CheckOutcome | None,
    known: TaskRecord,
    worked_s: float,
) -> Result:
    """Return the result that follows from the session."""
    last = newest(record.events, AgentStateChangedObservation)
    exit_code = last.exit_code if last is not None and last.exit_code is not None else 1
    return Result(
        id=order.task.id,
        status=_status(last),
        reason=last.reason if last is not None else "",
        exit_code=exit_code,
        answer=last_answer(record.events),
        error=last.content if last is not None and exit_code else "",
        check=outcome,
        duration_s=round(known.worked_s + worked_s, 3),
        **_used(record),
    )


def _used(record: SessionRecord) -> dict[str, Any]:
    """Return the fields of a result that a session has however it ended."""
    state, done = record.state, totals(record.events)
    return {
        "model": state.model,
        "steps": done.steps,
        "prompt_tokens": done.usage.prompt_tokens,
        "completion_tokens": done.usage.completion_tokens,
        "cache_read_tokens": done.usage.cache_read_tokens,
        "cost_usd": state.cost_usd,
        "abandoned_usd": state.abandoned_usd,
        "session_id": record.folder.name,
    }


def _status(last: AgentStateChangedObservation | None) -> Status:
    if last is None or last.agent_state == AgentState.ERROR:
        return "error"
    if last.agent_state == AgentState.PAUSED and last.reason in _LIMITS:
        return "limit"
    return "failed" if last.exit_code else "finished"


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

    def send(report: Report) -> None:
        send_line(reports, report.as_line())

    orders = Orders(interrupt)
    while line := orders.lines.get():
        at_work.set()
        if orders.ended.is_set():
            return
        report = carry_out(Order.model_validate_json(line), send)
        with interrupts.shield():
            send(report)
        at_work.clear()
