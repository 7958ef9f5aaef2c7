"""Which recorded actions may run, and which of them side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from agentcli.agent.agent import Agent, Toolbox
from agentcli.errors import ConfigError
from agentcli.events import Action
from agentcli.events.actions import AgentFinishAction
from agentcli.events.observations import (
    DecisionObservation,
    ErrorObservation,
    UserRejectObservation,
)
from agentcli.events.progress import Notice
from agentcli.interrupts import off_the_clock
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState

_NOTHING_RUN = "Nothing of this call was run."
_BETWEEN_PARTS = re.compile(r"[;\n|]|&&")


def batches(actions: Sequence[Action], tools: Toolbox) -> Iterator[list[Action]]:
    """Runs of consecutive read-only actions together, any other alone, `finish` last."""
    ordered = sorted(actions, key=lambda action: isinstance(action, AgentFinishAction))
    for together, group in groupby(ordered, key=tools.runs_beside_others):
        if together:
            yield list(group)
        else:
            yield from ([action] for action in group)


class Permits:
    """Which of the recorded actions may run: those after one of the same reply that was refused may
    have counted on it, so that they are not run."""

    def __init__(self, agent: Agent, session: Session) -> None:
        self._agent = agent
        self._session = session
        self._refused: set[str] = set()

    def of(self, action: Action) -> bool:
        """Whether `action` may run; one that may not gets its observation here."""
        reply = action.reply.id if action.reply else ""
        if reply in self._refused:
            told = "Not run: the call before it was refused."
            self._session.emit(ErrorObservation(error_id="not_run", content=told, cause=action.id))
            return False
        if _allowed(self._agent, self._session, action):
            return True
        self._refused |= {reply} if reply else set()
        return False


def _allowed(agent: Agent, session: Session, action: Action) -> bool:
    """Whether `action` may run: the policy decides, a hook may refuse, a person is asked where the
    policy says so. What was asked or refused, and the answer, are recorded; a refused action gets
    its observation here."""
    decision = agent.policy.decide(action, session.state.grants)
    if decision.decision == "ask" and agent.approver is None:
        why = f"{decision.reason}; nobody is there to be asked"
        decision = decision.model_copy(
            update={"decision": "deny", "unattended": True, "reason": why}
        )
    if decision.decision == "deny":
        session.emit(decision)
        return _refuse(session, action, decision.reason, _refusal(decision, action))
    if agent.hooks is not None and (why := agent.hooks.before(session, action)):
        return _refuse(
            session, action, why, f"A hook of the user refused this: {why}. {_NOTHING_RUN}"
        )
    if decision.decision == "ask":
        session.emit(decision)
        if not _asked(agent, session, action, decision):
            return False
    if decision.path is not None:
        agent.tools.permit(decision.path)
    return True


def _asked(agent: Agent, session: Session, action: Action, decision: DecisionObservation) -> bool:
    assert agent.approver is not None
    session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
    with off_the_clock():
        approval = agent.approver.ask(action, decision.reason, risk=decision.risk)
    lasting = approval.allowed and approval.scope != "once"
    grant = agent.policy.grant_for(action) if lasting else None
    session.emit(
        DecisionObservation(
            cause=action.id,
            decision="allow" if approval.allowed else "deny",
            by="user",
            reason=approval.reason,
            grant=grant,
            scope=approval.scope if approval.allowed else None,
        )
    )
    answered = AgentState.USER_CONFIRMED if approval.allowed else AgentState.USER_REJECTED
    session.change_state(answered)
    if grant and approval.scope == "always":
        _save(agent, session, grant)
    if not approval.allowed:
        said = f"They said: {approval.reason}" if approval.reason else "Do not work around that."
        _refuse(
            session, action, approval.reason, f"The user did not allow this. {_NOTHING_RUN} {said}"
        )
    session.change_state(AgentState.RUNNING)
    return approval.allowed


def _save(agent: Agent, session: Session, grant: str) -> None:
    """For later sessions too. The answer is recorded, so it counts whatever comes of this."""
    try:
        agent.save_rule(grant)
    except ConfigError as error:
        session.notify(Notice(f"not saved, it holds for this session only: {error.message}"))


def _refusal(decision: DecisionObservation, action: Action) -> str:
    """What the model is told of an action that the policy denies."""
    way_on = "Send the rest without it" if _has_parts(action) else "Do without it"
    if decision.unattended:
        way_on += ", and say at the end what it was needed for"
    return f"Not allowed: {decision.reason}. {_NOTHING_RUN} {way_on}."


def _has_parts(action: Action) -> bool:
    text = getattr(action, "command", "") or getattr(action, "code", "")
    return isinstance(text, str) and bool(_BETWEEN_PARTS.search(text.strip()))


def _refuse(session: Session, action: Action, reason: str, told: str) -> bool:
    session.emit(UserRejectObservation(cause=action.id, reason=reason, content=told))
    return False
