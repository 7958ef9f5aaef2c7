"""One child at work: opens its session, runs its turn, closes its session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentcli.agent.agent import Approver, Policy
from agentcli.agent.ending import TurnResult
from agentcli.agent.loop import run_turn
from agentcli.app.delegation.child_parent import ChildBuilder
from agentcli.app.delegation.child_report import has_task, is_over
from agentcli.app.delegation.parallel_turns import MainThreadCalls
from agentcli.app.open_session import OpenSession
from agentcli.app.resume import discard_unfinished
from agentcli.errors import AgentError
from agentcli.events import Action, Event, Progress, Risk, Source
from agentcli.events.actions import AgentDelegateAction, MessageAction
from agentcli.events.approval import Approval
from agentcli.events.observations import DecisionObservation
from agentcli.events.progress import ChildProgress, Status, StepDone
from agentcli.knowledge.definitions import AgentDefinition
from agentcli.sessions.session import Session, Subscriber


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
        agent = self._opened.agent
        agent = replace(agent, policy=_WithGrants(agent.policy, self.grants))
        if self.reads_only:
            # It has nothing to keep or to watch, and only the main thread may do either.
            agent = replace(agent, checkpointer=None, git=None)
        self.result = run_turn(agent, self._opened.session)

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            self.new_grants = opened.session.state.grants
            opened.close(self.result.ending.reason if self.result else "failed")

    def _open(
        self, builder: ChildBuilder, notify: Callable[[Progress], None]
    ) -> OpenSession | None:
        """Return the child's session with its task; None if it has already finished."""
        given = self.delegation

        def subscribers(session: Session) -> list[Subscriber]:
            return [Follower(session, given.action.id, notify)]

        events = discard_unfinished(given.folder)
        if not events:
            opened = builder.create(subscribers, folder=given.folder)
        elif not has_task(events, given.key):
            opened = builder.reopen(given.folder, subscribers, has_message=True)
        elif is_over(events):
            return None
        else:
            return builder.reopen(given.folder, subscribers)
        with opened.closed_on_failure():
            task = MessageAction(content=given.action.task, source=Source.USER, delegated=given.key)
            opened.session.emit(task)
            opened.fresh = False
            opened.knowledge.inform(opened.session)
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

    session: Session
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
