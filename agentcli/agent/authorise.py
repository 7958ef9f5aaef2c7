"""Decides which recorded actions may run, and which of them in parallel."""

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
from agentcli.interrupts import pause_countdown
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState

_NOTHING_RUN = "Nothing of this call was run."
_BETWEEN_PARTS = re.compile(r"[;\n|]|&&")


def parallel_groups(actions: Sequence[Action], agent: Agent) -> Iterator[list[Action]]:
    """Yield groups of consecutive actions that may run in parallel; others alone, `finish` last."""
    ordered = sorted(actions, key=lambda action: isinstance(action, AgentFinishAction))
    for kind, group in groupby(ordered, key=lambda action: _parallel_kind(agent, action)):
        if kind:
            yield list(group)
        else:
            yield from ([action] for action in group)


def _parallel_kind(agent: Agent, action: Action) -> str:
    """Return what it may run beside: other calls that only read, or other children that only read;
    "" if it must run alone."""
    if isinstance(action, AgentDelegateAction) and agent.children is not None:
        return "children" if agent.children.runs_beside_others(action) else ""
    return "calls" if agent.tools.runs_beside_others(action) else ""


class Authoriser:
    """Decides which recorded actions may run. After a refusal, later actions of the same reply
    don't run, as they may depend on the refused one."""

    def __init__(self, agent: Agent, session: Session) -> None:
        self._agent = agent
        self._session = session
        self._refused: set[str] = set()

    def authorise(self, action: Action) -> bool:
        """Have it decided whether `action` may run, and record that. If it may not, its observation
        is recorded, too."""
        reply = action.reply.id if action.reply else ""
        if reply in self._refused:
            why = "Not run: the call before it was refused."
            self._session.emit(ErrorObservation(error_id="not_run", content=why, cause=action.id))
            return False
        if self._is_allowed(action):
            return True
        self._refused |= {reply} if reply else set()
        return False

    def _is_allowed(self, action: Action) -> bool:
        """Let the policy decide, then the hooks, which may refuse, then the user if the policy says
        so. Records what was asked or refused, the user's answer, and the observation of a refused
        action."""
        agent, session = self._agent, self._session
        decision = agent.policy.decide(action, session.state.grants)
        if decision.decision == "ask" and agent.approver is None:
            why = f"{decision.reason}; nobody is there to be asked"
            denied = {"decision": "deny", "unattended": True, "reason": why}
            decision = decision.model_copy(update=denied)
        if decision.decision == "deny":
            session.emit(decision)
            return self._refuse(action, decision.reason, _refusal(decision, action))
        if agent.hooks is not None and (why := agent.hooks.before(session, action)):
            told = f"A hook of the user refused this: {why}. {_NOTHING_RUN}"
            return self._refuse(action, why, told)
        if decision.decision == "ask":
            session.emit(decision)
            if not self._ask_user(action, decision):
                return False
        if decision.path is not None:
            agent.tools.permit(decision.path)
        return True

    def _ask_user(self, action: Action, decision: DecisionObservation) -> bool:
        """Ask the user, and record the answer. Return whether the action may run."""
        agent, session = self._agent, self._session
        assert agent.approver is not None
        session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
        with pause_countdown():
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
            self._save_rule(grant)
        if not approval.allowed:
            why = f"They said: {approval.reason}" if approval.reason else "Do not work around that."
            told = f"The user did not allow this. {_NOTHING_RUN} {why}"
            self._refuse(action, approval.reason, told)
        session.change_state(AgentState.RUNNING)
        return approval.allowed

    def _save_rule(self, grant: str) -> None:
        """Save the rule for later sessions. In this one the recorded answer counts anyway."""
        try:
            self._agent.save_rule(grant)
        except ConfigError as error:
            why = f"the rule could not be saved and applies to this session only: {error.message}"
            self._session.notify(Notice(why))

    def _refuse(self, action: Action, reason: str, content: str) -> bool:
        refused = UserRejectObservation(cause=action.id, reason=reason, content=content)
        self._session.emit(refused)
        return False


def _refusal(decision: DecisionObservation, action: Action) -> str:
    """Return what the model is told about an action that the policy denies."""
    advice = "Send the rest without it" if _has_parts(action) else "Do without it"
    if decision.unattended:
        advice += ", and say at the end what it was needed for"
    return f"Not allowed: {decision.reason}. {_NOTHING_RUN} {advice}."


def _has_parts(action: Action) -> bool:
    text = getattr(action, "command", "") or getattr(action, "code", "")
    return isinstance(text, str) and bool(_BETWEEN_PARTS.search(text.strip()))
