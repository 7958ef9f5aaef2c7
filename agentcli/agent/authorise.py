"""Which recorded actions may run, and which of them in parallel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from agentcli.agent.agent import Agent
from agentcli.errors import ConfigError
from agentcli.events import Action
from agentcli.events.actions import AgentDelegateAction, AgentFinishAction
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


def batches(actions: Sequence[Action], agent: Agent) -> Iterator[list[Action]]:
    """Consecutive actions that may run in parallel together, any other alone, `finish` last."""
    ordered = sorted(actions, key=lambda action: isinstance(action, AgentFinishAction))
    for company, group in groupby(ordered, key=lambda action: _company(agent, action)):
        if company:
            yield list(group)
        else:
            yield from ([action] for action in group)


def _company(agent: Agent, action: Action) -> str:
    """Beside what it may run: calls that only read, or children that do; "": it runs alone."""
    if isinstance(action, AgentDelegateAction) and agent.children is not None:
        return "children" if agent.children.runs_beside_others(action) else ""
    return "calls" if agent.tools.runs_beside_others(action) else ""


class Authoriser:
    """Decides which of the recorded actions may run. After a refused one the later ones of the same
    reply are not run, as they may depend on it."""

    def __init__(self, agent: Agent, session: Session) -> None:
        self._agent = agent
        self._session = session
        self._refused: set[str] = set()

    def allows(self, action: Action) -> bool:
        """Whether `action` may run; one that may not gets its observation here."""
        reply = action.reply.id if action.reply else ""
        if reply in self._refused:
            why = "Not run: the call before it was refused."
            self._session.emit(ErrorObservation(error_id="not_run", content=why, cause=action.id))
            return False
        if _allowed(self._agent, self._session, action):
            return True
        self._refused |= {reply} if reply else set()
        return False


def _allowed(agent: Agent, session: Session, action: Action) -> bool:
    """The policy decides, a hook may refuse, and a person is asked where the policy says so. What
    was asked or refused is recorded, and so is the answer; a refused action gets its observation
    here."""
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
        if not _approved(agent, session, action, decision):
            return False
    if decision.path is not None:
        agent.tools.permit(decision.path)
    return True


def _approved(
    agent: Agent, session: Session, action: Action, decision: DecisionObservation
) -> bool:
    """What a person answers, recorded."""
    assert agent.approver is not None
    session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
    with off_the_clock():
        approval = agent.approver.ask(action, decision.reason, risk=decision.risk)
    lasting = approval.allowed and approval.scope != "once"
    grant = approval.rule if lasting and approval.rule else None
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
    session.change_state(
        AgentState.USER_CONFIRMED if approval.allowed else AgentState.USER_REJECTED
    )
    if grant and approval.scope == "always":
        _save_rule(agent, session, grant)
    if not approval.allowed:
        why = f"They said: {approval.reason}" if approval.reason else "Do not work around that."
        _refuse(
            session, action, approval.reason, f"The user did not allow this. {_NOTHING_RUN} {why}"
        )
    session.change_state(AgentState.RUNNING)
    return approval.allowed


def _save_rule(agent: Agent, session: Session, grant: str) -> None:
    """For later sessions too; in this one the recorded answer counts, even if this fails."""
    try:
        agent.save_rule(grant)
    except ConfigError as error:
        session.notify(Notice(f"not saved, it holds for this session only: {error.message}"))


def _refusal(decision: DecisionObservation, action: Action) -> str:
    """What the model is told of an action that the policy denies."""
    advice = "Send the rest without it" if _has_parts(action) else "Do without it"
    if decision.unattended:
        advice += ", and say at the end what it was needed for"
    return f"Not allowed: {decision.reason}. {_NOTHING_RUN} {advice}."


def _has_parts(action: Action) -> bool:
    text = getattr(action, "command", "") or getattr(action, "code", "")
    return isinstance(text, str) and bool(_BETWEEN_PARTS.search(text.strip()))


def _refuse(session: Session, action: Action, reason: str, content: str) -> bool:
    session.emit(UserRejectObservation(cause=action.id, reason=reason, content=content))
    return False
