"""One child at work: opens its session, runs its turn, closes its session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.agent.agent import Approval, Approver, Policy
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
from agentcli.events.observations import DecisionObservation
from agentcli.events.progress import ChildProgress, Status, StepDone
from agentcli.knowledge.agents import AgentDefinition
from agentcli.sessions.session import Session, Subscriber


@dataclass(frozen=True)
class Delegation:
    """A task for the child in `folder`, which need not exist yet. `key` distinguishes it from all
    other delegations."""

    action: AgentDelegateAction
    definition: AgentDefinition
    folder: Path
    key: str


class ChildRun:
    """The run of one child, as a job of `run_in_parallel`. `builder` makes the child's session, and
    asks the user through the main thread if it works on another one; `grants` is what the user has
    allowed; `notify` shows progress."""

    def __init__(
        self,
        delegation: Delegation,
        builder: Callable[[MainThreadCalls | None], ChildBuilder],
        grants: Sequence[str],
        notify: Callable[[Progress], None],
        *,
        reads_only: bool,
        has_own_budget: bool,
    ) -> None:
        """`has_own_budget`: its limit on money is its own, not what the parent has left."""
        self.delegation = delegation
        self.result: TurnResult | None = None
        """None if the child had already finished."""
        self.error: AgentError | None = None
        """Why there is no child that could work."""
        self.has_own_budget = has_own_budget
        self.new_grants: tuple[str, ...] = ()
        self._builder = builder
        self._grants = grants
        self._notify = notify
        self._reads_only = reads_only
        self._opened: OpenSession | None = None

    def open(self, main_thread: MainThreadCalls | None) -> bool:
        """Open the child's session, and return whether there is work to do."""
        notify = self._notify
        if main_thread is not None:
            pass_on = main_thread.later

            def notify(progress: Progress) -> None:
                pass_on(lambda: self._notify(progress))

        try:
            self._opened = self._open(self._builder(main_thread), notify)
        except AgentError as error:
            self.error = error
        return self._opened is not None

    def work(self) -> None:
        assert self._opened is not None
        agent = self._opened.agent
        agent = replace(agent, policy=_WithGrants(agent.policy, self._grants))
        if self._reads_only:
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


class ChildApprover:
    """Asks whoever the parent would ask, and says for which child."""

    def __init__(self, approver: Approver, name: str, main_thread: MainThreadCalls | None) -> None:
        self._approver = approver
        self._name = name
        self._main_thread = main_thread

    def ask(self, action: Action, reason: str, *, risk: Risk) -> Approval:
        told = f"for the child {self._name}: {reason}"

        def ask() -> Approval:
            return self._approver.ask(action, told, risk=risk)

        return ask() if self._main_thread is None else self._main_thread.now(ask)

    def answer(self, question: str, options: Sequence[str]) -> None:
        """A child never asks a question itself."""


class _WithGrants:
    """A policy that also knows what the user has allowed in the parent and its other children."""

    def __init__(self, policy: Policy, grants: Sequence[str]) -> None:
        self._policy = policy
        self._more = grants

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return self._policy.decide(action, tuple(dict.fromkeys((*self._more, *grants))))


class Follower:
    """Shows on the parent's screen what the child does; a subscriber of its session."""

    def __init__(
        self, session: Session, action_id: int, notify: Callable[[Progress], None]
    ) -> None:
        self._session = session
        self._action_id = action_id
        self._notify = notify
        self._doing = "begins"

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
        state = self._session.state
        self._notify(ChildProgress(self._action_id, self._doing, state.iteration, state.cost_usd))
