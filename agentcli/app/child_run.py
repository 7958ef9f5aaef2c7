"""Children at work: one child from opening its session to the report, and several at once.

Several work each on a thread of its own. The main thread stays free for interrupts and for what
only it may do: open and close sessions, ask the user, draw.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from agentcli import interrupts
from agentcli.agent.agent import Approver, Policy
from agentcli.agent.ending import MAX_TURNS, NEEDS_APPROVAL, TurnResult
from agentcli.agent.replies import ending_of_reply, last_answer
from agentcli.app.agents import ChildBuilder
from agentcli.app.open_session import OpenSession
from agentcli.app.resume import discard_unfinished
from agentcli.app.undo import files_changed
from agentcli.errors import AgentError, TurnInterrupted
from agentcli.events import Action, Event, Progress, Risk, Source
from agentcli.events.actions import AgentDelegateAction, MessageAction
from agentcli.events.conversation import newest, newest_first
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    DelegateObservation,
)
from agentcli.events.progress import Approval, ChildProgress, Status, StepDone
from agentcli.evidence.fold import child_tests, evidence_of
from agentcli.interrupts import shield
from agentcli.knowledge.definitions import AgentDefinition
from agentcli.memory.projection import clip
from agentcli.sessions.history import totals
from agentcli.sessions.session import SessionLog, SessionRecord, Subscriber
from agentcli.sessions.state import AgentState, Metrics
from agentcli.workspace.names import first_names

MAX_REPORT_CHARS = 24_000
_FACTS_CHARS = 3_000
_MOST_FILES = 20
_OVER = (AgentState.FINISHED, AgentState.ERROR)


def has_task(events: Sequence[Event], key: str) -> bool:
    """Whether the child was given the task of this delegation."""
    return any(isinstance(e, MessageAction) and e.delegated == key for e in newest_first(events))


def is_over(events: Sequence[Event]) -> bool:
    """Whether the child has finished, rather than only stopped with more to do."""
    last = newest(events, AgentStateChangedObservation)
    if last is None:
        return False
    return last.agent_state in _OVER or (last.agent_state == "paused" and last.reason == MAX_TURNS)


def report_of(record: SessionRecord, known: Metrics, key: str) -> DelegateObservation:
    """Return the report on the delegation `key`. `known` is the usage of the child that the parent
    already knows."""
    events, state = record.events, record.state
    last = newest(events, AgentStateChangedObservation)
    status = _status(last)
    own = _since_task(events, key)
    done = totals(own)
    changed = files_changed(record.folder, state.workspace, done)
    used = _difference(state.metrics_with_children, known)
    costs = [each.get("cost_usd") for each in used.values()]
    said = clip(last_answer(events), MAX_REPORT_CHARS - _FACTS_CHARS)
    facts = _facts(record.folder.name, status, last, done.steps, changed)
    denied = last is not None and last.reason == NEEDS_APPROVAL
    return DelegateObservation(
        content="\n\n".join(filter(None, (said, facts))),
        agent=state.agent_name,
        session_id=record.folder.name,
        status=status,
        error=status != "finished",
        needs_approval=last.content if denied and last is not None else "",
        steps=done.steps,
        cost_usd=None if None in costs else float(sum(cost or 0 for cost in costs)),
        metrics=used,
        abandoned_usd=0.0 if known else state.abandoned_usd,
        files_changed=changed,
        tests=child_tests(evidence_of(events), own[0].id if own else 0),
    )


def _facts(
    session_id: str,
    status: str,
    last: AgentStateChangedObservation | None,
    steps: int,
    changed: Sequence[str],
) -> str:
    """Return a line for the model that follows the child's answer."""
    told = f"session {session_id}: {status} after {steps} step{'s' * (steps != 1)}"
    if status != "finished" and last is not None and last.content:
        told += f" ({' '.join(last.content.split())[:500]})"
    if status not in ("finished", "failed"):
        told += "; it goes on if you delegate to this session"
    if changed:
        names = first_names(changed, _MOST_FILES)
        told += f". It changed {names}: what you read of these before is out of date"
    return f"[{told}.]"


def _status(last: AgentStateChangedObservation | None) -> str:
    """Return how the child ended, as a stable word."""
    if last is None or last.agent_state in ("running", "rate_limited"):
        return "interrupted"
    if last.agent_state == AgentState.FINISHED:
        return "finished" if not last.exit_code else "failed"
    if last.agent_state == AgentState.PAUSED and last.reason in ("terminated", "killed", ""):
        return "interrupted"
    return last.reason or str(last.agent_state)


def _since_task(events: Sequence[Event], key: str) -> list[Event]:
    since: list[Event] = []
    for event in newest_first(events):
        since.append(event)
        if isinstance(event, MessageAction) and event.delegated == key:
            break
    return since[::-1]


def _difference(now: Metrics, before: Metrics) -> Metrics:
    return {
        model: {name: _less(value, before.get(model, {}), name) for name, value in used.items()}
        for model, used in now.items()
    }


def _less(
    value: float | int | None, before: Mapping[str, float | int | None], name: str
) -> float | int | None:
    earlier = before.get(name, 0)
    return None if value is None or earlier is None else value - earlier


A = TypeVar("A")
T = TypeVar("T")
Call = Callable[[], None]

_TICK_S = 0.1
_PATIENCE_S = 10.0
"""How long threads get to record an interrupt; then they are left behind. What is on record is
consistent at any time."""


class Job(Protocol):
    def open(self, main_thread: MainThreadCalls) -> bool:
        """Prepare, on the main thread. Return False if there is nothing to work on."""

    def work(self) -> None:
        """Do the work, on any thread."""

    def close(self) -> None:
        """Clean up after `work`, on the main thread."""


@dataclass(frozen=True)
class MainThreadCalls:
    """Has the main thread do something on behalf of another one."""

    calls: queue.SimpleQueue[Call]

    def passing_on(self, tell: Callable[[A], None]) -> Callable[[A], None]:
        """Return a function that has the main thread call `tell` some time."""
        return lambda news: self.calls.put(partial(tell, news))

    def now(self, ask: Callable[[], T]) -> T:
        """Return what `ask` returns on the main thread. Raises what it raises, or a stop."""
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)
                # An error belongs to the thread that asked; an interrupt stops the main thread too.
                if not isinstance(error, Exception):
                    raise

        self.calls.put(call)
        while not wait([answer], _TICK_S).done:
            interrupts.check()
        return answer.result()


def run_in_parallel(jobs: Sequence[Job], most: int) -> None:
    """Open, work on and close all `jobs`, at most `most` at once. An interrupt stops each where it
    does no harm, and is raised on; so is the first error of a job, when the running ones are
    done."""
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    waiting = deque(jobs)
    running: dict[threading.Thread, Job] = {}
    errors: list[BaseException] = []
    try:
        while (waiting and not errors) or running:
            interrupts.check()
            while waiting and not errors and len(running) < most:
                job = waiting.popleft()
                with shield():
                    if job.open(MainThreadCalls(calls)):
                        thread = _thread(job, errors)
                        running[thread] = job
                        thread.start()
            _take(calls)
            with shield():
                _close_done(running)
    except TurnInterrupted as interrupt:
        with shield():
            for thread in running:
                interrupts.stop_thread(thread, interrupt)
            until = time.monotonic() + _PATIENCE_S
            while running and time.monotonic() < until:
                next(iter(running)).join(_TICK_S)
                _close_done(running)
        raise
    if errors:
        raise errors[0]


def _thread(job: Job, errors: list[BaseException]) -> threading.Thread:
    def work() -> None:
        try:
            job.work()
        except BaseException as error:
            errors.append(error)

    return threading.Thread(target=work, name="child", daemon=True)


def _take(calls: queue.SimpleQueue[Call]) -> None:
    """Do what the threads ask for; if there is nothing, wait a moment."""
    try:
        calls.get(timeout=_TICK_S)()
        while True:
            calls.get_nowait()()
    except queue.Empty:
        pass


def _close_done(running: dict[threading.Thread, Job]) -> None:
    for thread in [thread for thread in running if not thread.is_alive()]:
        running.pop(thread).close()


@dataclass(frozen=True)
class Delegation:
    """A task for the child in `folder`, which need not exist yet. `key` distinguishes it from all
    other delegations."""

    action: AgentDelegateAction
    definition: AgentDefinition
    folder: Path
    key: str


@dataclass
class ChildRun:
    """The run of one child, as a job of `run_in_parallel`."""

    delegation: Delegation
    builder: Callable[[MainThreadCalls | None], ChildBuilder]
    """Returns what makes the child's session; it asks the user through the main thread if it works
    on another one."""
    grants: Sequence[str]
    """What the user has allowed."""
    notify: Callable[[Progress], None]
    """Shows progress."""
    reads_only: bool
    has_own_budget: bool
    """Whether its limit on money is its own, not what the parent has left."""
    result: TurnResult | None = field(default=None, init=False)
    """None if the child had already finished."""
    error: AgentError | None = field(default=None, init=False)
    """Why there is no child that could work."""
    new_grants: tuple[str, ...] = field(default=(), init=False)
    _opened: OpenSession | None = field(default=None, init=False)

    def open(self, main_thread: MainThreadCalls | None) -> bool:
        """Open the child's session, and return whether there is work to do."""
        notify = self.notify
        if main_thread is not None:
            notify = main_thread.passing_on(notify)
        try:
            self._opened = self._open(self.builder(main_thread), notify)
        except AgentError as error:
            self.error = error
        return self._opened is not None

    def work(self) -> None:
        assert self._opened is not None
        opened = self._opened
        opened.agent = replace(opened.agent, policy=_WithGrants(opened.agent.policy, self.grants))
        if self.reads_only:
            # It has nothing to keep or to watch, and only the main thread may do either.
            opened.agent = replace(opened.agent, checkpointer=None, git=None)
        self.result = opened.work()

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            self.new_grants = opened.session.state.grants
            opened.close()

    def _open(
        self, builder: ChildBuilder, notify: Callable[[Progress], None]
    ) -> OpenSession | None:
        """Return the child's session with its task; None if it has already finished."""
        given = self.delegation

        def say(opened: OpenSession) -> None:
            task = MessageAction(content=given.action.task, source=Source.USER, delegated=given.key)
            opened.session.emit(task)
            opened.fresh = False
            opened.knowledge.inform(opened.session)

        return open_for_task(
            builder,
            given.folder,
            lambda session: [Follower(session, given.action.id, notify)],
            has_task=lambda events: has_task(events, given.key),
            is_over=is_over,
            say=say,
        )


def open_for_task(
    builder: ChildBuilder,
    folder: Path,
    subscribers: Callable[[SessionLog], Sequence[Subscriber]],
    *,
    has_task: Callable[[Sequence[Event]], bool],
    is_over: Callable[[Sequence[Event]], bool],
    say: Callable[[OpenSession], None],
) -> OpenSession | None:
    """Open the session in `folder`, which need not exist, wherever an earlier process left it;
    `say` gives it its task if it has none yet. Return None if it is over. Raises as AgentBuilder
    does."""
    events = discard_unfinished(folder)
    if has_task(events):
        if is_over(events):
            return None
        # One that was stopped after its last reply has nothing left to do but to record its end.
        is_answered = ending_of_reply(events, interactive=False) is not None
        return builder.reopen(folder, subscribers, has_message=is_answered)
    opened = (
        builder.reopen(folder, subscribers, has_message=True)
        if events
        else builder.create(subscribers, folder=folder)
    )
    with opened.closed_on_failure():
        say(opened)
    return opened


@dataclass(frozen=True)
class ChildApprover:
    """Asks whoever the parent would ask, and says for which child."""

    approver: Approver
    name: str
    main_thread: MainThreadCalls | None

    def ask(self, action: Action, reason: str, *, risk: Risk) -> Approval:
        told = f"for the child {self.name}: {reason}"

        def ask() -> Approval:
            return self.approver.ask(action, told, risk=risk)

        return ask() if self.main_thread is None else self.main_thread.now(ask)

    def answer(self, question: str, options: Sequence[str]) -> None:
        """A child never asks a question itself."""


@dataclass(frozen=True)
class _WithGrants:
    """A policy that also knows what the user has allowed in the parent and its other children."""

    policy: Policy
    grants: Sequence[str]

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return self.policy.decide(action, tuple(dict.fromkeys((*self.grants, *grants))))


@dataclass
class Follower:
    """Tells what a session does that is shown elsewhere, as on its parent's screen; subscribes to
    it."""

    session: SessionLog
    action_id: int
    notify: Callable[[ChildProgress], None]
    _doing: str = field(default="begins", init=False)

    def on_event(self, event: Event) -> None:
        if isinstance(event, Action) and event.runnable and event.tool_call_metadata is not None:
            self._doing = event.message
            self._tell()

    def on_progress(self, progress: Progress) -> None:
        match progress:
            case Status(phase="running"):
                return
            case Status(phase=phase, detail=detail):
                self._doing = detail or phase
            case ChildProgress(doing=doing):
                self._doing = f"its child: {doing}"
            case StepDone():
                pass
            case _:
                return
        self._tell()

    def _tell(self) -> None:
        state = self.session.state
        self.notify(ChildProgress(self.action_id, self._doing, state.iteration, state.cost_usd))
