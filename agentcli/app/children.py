"""Sessions that carry out what another one delegates.

A child is one more run of the loop (`agent/loop.py`), on a session of its own. The parent records
which child carries out which delegation before anything of the child exists, and what the child did
is in its own session; so the same child continues after an interrupt or a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentcli.agent.agent import Approver
from agentcli.agent.ending import LIMIT_EXIT_CODE, MAX_BUDGET
from agentcli.app.agents import ChildBuilder, ChildRole, KnownAgents, Parent
from agentcli.app.child_run import (
    ChildApprover,
    ChildRun,
    Delegation,
    MainThreadCalls,
    report_of,
    run_in_parallel,
)
from agentcli.app.containment import TMP_FOLDER
from agentcli.app.policy import SessionPolicy
from agentcli.errors import LLMError, LLMErrorKind, ToolError, TurnInterrupted
from agentcli.events import Observation
from agentcli.events.actions import AgentDelegateAction
from agentcli.events.conversation import newest_first
from agentcli.events.observations import DelegateStartedObservation, ErrorObservation
from agentcli.interrupts import OutOfTime, shield
from agentcli.sessions.finder import exists, new_folder, state_of
from agentcli.sessions.session import read_session
from agentcli.sessions.state import AgentState, State

_NOT_STARTED = "Not started: the user said something else first."


class Children:
    """The children of one session."""

    def __init__(self, parent: Parent, agents: KnownAgents) -> None:
        self._parent = parent
        self._agents = agents
        self._grants: tuple[str, ...] = ()
        """What the user has allowed children for the rest of the session."""

    def runs_beside_others(self, action: AgentDelegateAction) -> bool:
        """Whether the child only reads and there are no hooks, as these need the main thread."""
        agent = self._agents.known.get(action.agent)
        hooks = self._parent.containment.settings.hooks
        has_hooks = any(getattr(hooks, event) for event in type(hooks).model_fields)
        return agent is not None and self._agents.reads_only(agent) and not has_hooks

    def carry_out(self, actions: Sequence[AgentDelegateAction]) -> Iterator[Observation]:
        """See `agent.Children`."""
        delegations: list[Delegation | ErrorObservation] = [self._delegation(a) for a in actions]
        able = [each for each in delegations if isinstance(each, Delegation)]
        runs = {run.delegation.key: run for run in self._run(able)}
        for each in delegations:
            if isinstance(each, Delegation):
                yield self._report(runs[each.key])
            else:
                yield each

    def give_up(self) -> None:
        """Answer open delegations with what they have so far, because the user said something new
        instead of letting them continue."""
        session = self._parent.session
        for action in session.pending_actions():
            if not isinstance(action, AgentDelegateAction):
                continue
            started = self._started(action)
            folder = self._home / (started.session_id if started else "")
            if started is None or not exists(folder):
                told = ErrorObservation(error_id="interrupted", content=_NOT_STARTED)
                session.emit(told.model_copy(update={"cause": action.id}))
            else:
                session.emit(self._report_of(folder, action))

    # --- which child

    def _delegation(self, action: AgentDelegateAction) -> Delegation | ErrorObservation:
        """Return the delegation, recorded from now on, or what is wrong with it."""
        try:
            definition = self._agents.get(action.agent)
            if not action.task.strip():
                raise ToolError("There is no task.")
            started = self._started(action)
            if started is None:
                folder = self._known(action) if action.session else new_folder(self._home.parent)
                started = DelegateStartedObservation(
                    action_id=action.id, session_id=folder.name, agent=action.agent
                )
                self._parent.session.emit(started)
        except ToolError as error:
            return ErrorObservation(error_id=error.error_id, content=error.message, cause=action.id)
        folder = self._home / started.session_id
        return Delegation(action, definition, folder, self._key(action))

    def _known(self, action: AgentDelegateAction) -> Path:
        """Return the folder of the earlier child that `action` names. Raises ToolError."""
        mine = self._parent.session.state.children
        if action.session not in mine or not exists(self._home / action.session):
            known = ", ".join(mine) or "none yet"
            raise ToolError(f"{action.session!r} is no session of a report to you: {known}.")
        name = state_of(self._home / action.session).agent_name
        if name != action.agent:
            raise ToolError(f"{action.session} is a session of the agent {name!r}.")
        return self._home / action.session

    def _started(self, action: AgentDelegateAction) -> DelegateStartedObservation | None:
        for event in newest_first(self._parent.session.events):
            if isinstance(event, DelegateStartedObservation) and event.action_id == action.id:
                return event
            if event.id <= action.id:
                break
        return None

    @property
    def _home(self) -> Path:
        """The folder of all sessions."""
        return self._parent.session.folder.parent

    def _key(self, action: AgentDelegateAction) -> str:
        return f"{self._parent.session.id}/{action.id}"

    # --- at work

    def _run(self, delegations: Sequence[Delegation]) -> list[ChildRun]:
        """Have each child work until it ends or stops. Raises TurnInterrupted."""
        left = self._left_usd(delegations)
        share = None if left is None else left / max(1, len(delegations))
        runs = [self._child(each, share) for each in delegations]
        if len(runs) > 1:
            run_in_parallel(runs, self._parent.containment.settings.delegation.side_by_side)
            for index, run in enumerate(runs):
                result = None if run.has_own_budget else run.result
                if result is not None and result.ending.reason == MAX_BUDGET:
                    # The others may not have used up their shares.
                    rest = self._left_usd(delegations)
                    runs[index] = self._child(run.delegation, rest)
                    _run_here(runs[index])
        elif runs:
            _run_here(runs[0])
        for run in runs:
            self._grants = tuple(dict.fromkeys((*self._grants, *run.new_grants)))
        return runs

    def _child(self, given: Delegation, share_usd: float | None) -> ChildRun:
        parent = self._parent
        reads_only = self._agents.reads_only(given.definition)
        limits = [given.definition.max_budget_usd]
        if share_usd is not None:
            limits.append(self._spent_usd(self._state(given.folder)) + share_usd)
        role = ChildRole(
            given.definition,
            parent.session.id,
            parent.level + 1,
            min((usd for usd in limits if usd is not None), default=None),
            parent.containment.tmp or parent.session.folder / TMP_FOLDER,
            reads_only,
        )
        return ChildRun(
            given,
            lambda main_thread: self._builder(role, main_thread),
            (*parent.session.state.grants, *self._grants),
            parent.session.notify,
            reads_only,
            has_own_budget=role.budget_usd is not None and role.budget_usd == limits[0],
        )

    def _builder(self, role: ChildRole, main_thread: MainThreadCalls | None) -> ChildBuilder:
        parent, ask = self._parent, None
        if (asks := parent.make_approver) is not None:

            def ask(policy: SessionPolicy, current_text: Callable[[str], str | None]) -> Approver:
                return ChildApprover(asks(policy, current_text), role.definition.name, main_thread)

        model, mode = parent.session.state.model, parent.policy.mode
        return parent.builder_for(
            role, role.settings(parent.containment.settings, model, mode), ask
        )

    def _left_usd(self, delegations: Sequence[Delegation]) -> float | None:
        """Return what the parent may still spend, less what these children have spent but not
        reported yet."""
        parent = self._parent
        left = parent.limits.left_usd(parent.session.state)
        if left is None:
            return None
        known = parent.session.state.children
        for given in delegations:
            reported = State(metrics=known.get(given.folder.name, {}))
            left -= self._spent_usd(self._state(given.folder)) - self._spent_usd(reported)
        return max(0.0, left)

    def _spent_usd(self, state: State) -> float:
        return self._parent.limits.spent_usd(state) + state.abandoned_usd

    def _state(self, folder: Path) -> State:
        return state_of(folder) if exists(folder) else State()

    # --- the report

    def _report(self, run: ChildRun) -> Observation:
        """Return the report on a run. Raises TurnInterrupted if the child was interrupted, LLMError
        if the parent's money is spent."""
        action, result = run.delegation.action, run.result
        if run.error is not None:
            told = f"The child can't work: {run.error.message}."
            return ErrorObservation(error_id="child_failed", content=told, cause=action.id)
        if result is not None and result.ending.agent_state is AgentState.PAUSED:
            ending = result.ending
            if ending.reason == OutOfTime().reason:
                raise OutOfTime()
            if ending.exit_code != LIMIT_EXIT_CODE:
                raise TurnInterrupted(ending.reason, ending.exit_code)
            if ending.reason == MAX_BUDGET and not run.has_own_budget:
                hint = f"to go on: agent resume {self._parent.session.id} --max-budget-usd …"
                raise LLMError(LLMErrorKind.BUDGET, ending.content, hint=hint)
        return self._report_of(run.delegation.folder, action)

    def _report_of(self, folder: Path, action: AgentDelegateAction) -> Observation:
        known = self._parent.session.state.children.get(folder.name, {})
        record = read_session(folder)
        report = report_of(record, known, self._key(action))
        return report.model_copy(update={"cause": action.id})


def _run_here(run: ChildRun) -> None:
    with shield():
        is_open = run.open(None)
    if is_open:
        try:
            run.work()
        finally:
            with shield():
                run.close()
