"""Which recorded actions may run, and which of them side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from agentcli.agent.agent import Agent, Toolbox
from agentcli.events import Action
from agentcli.events.actions import AgentFinishAction
from agentcli.events.observations import DecisionObservation, UserRejectObservation
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def batches(actions: Sequence[Action], tools: Toolbox) -> Iterator[list[Action]]:
    """Runs of consecutive read-only actions together, any other alone, `finish` last."""
    ordered = sorted(actions, key=lambda action: isinstance(action, AgentFinishAction))
    for together, group in groupby(ordered, key=tools.runs_beside_others):
        if together:
            yield list(group)
        else:
            yield from ([action] for action in group)


def allowed(agent: Agent, session: Session, action: Action) -> bool:
    """Whether `action` may run. What was asked or refused, and the answer, are recorded; a refused
    action gets its observation here."""
    decision = agent.policy.decide(action, session.state.grants)
    if decision.decision == "allow":
        return True
    session.emit(decision)
    if decision.decision == "deny" or agent.approver is None:
        session.emit(UserRejectObservation(cause=action.id, reason=decision.reason))
        return False
    return _asked(agent, session, action, decision.reason)


def _asked(agent: Agent, session: Session, action: Action, why: str) -> bool:
    assert agent.approver is not None
    session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
    approval = agent.approver.ask(action, why)
    lasting = approval.allowed and approval.scope == "session"
    session.emit(
        DecisionObservation(
            cause=action.id,
            decision="allow" if approval.allowed else "deny",
            by="user",
            reason=approval.reason,
            grant=agent.policy.grant_for(action) if lasting else None,
        )
    )
    if not approval.allowed:
        session.emit(UserRejectObservation(cause=action.id, reason=approval.reason))
    session.change_state(AgentState.RUNNING)
    return approval.allowed
