"""Decide which recorded actions may run, and in parallel with which; run them, with checkpoints
around them and observations for those that an interrupt cut off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from agentcli.agent.agent import Agent
from agentcli.errors import ConfigError, TurnInterrupted
from agentcli.events import Action, Observation
from agentcli.events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    FileEditAction,
    FileWriteAction,
)
from agentcli.events.observations import (
    DecisionObservation,
    ErrorObservation,
    UserRejectObservation,
)
from agentcli.events.progress import Notice, Status, ToolOutput
from agentcli.interrupts import pause_countdown
from agentcli.sessions.history import without_delegated
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import AgentState

_NOTHING_RUN = "Nothing of this call was run."
_AFTER_EDIT = "Not run: an edit before it in the same reply failed, so files are not as it expects."
_EDITS = (FileEditAction, FileWriteAction)
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
        return "children" if agent.children().runs_beside_others(action) else ""
    return "calls" if agent.tools.runs_beside_others(action) else ""


class PermissionChecker:
    """Decides which recorded actions may run. After a refusal, later actions of the same reply
    don't run, as they may depend on the refused one."""

    def __init__(self, agent: Agent, session: SessionLog) -> None:
        self._agent = agent
        self._session = session
        self._refused: set[str] = set()

    def permits(self, action: Action) -> bool:
        """Have it decided whether `action` may run, and record that. If it may not, its observation
        is recorded, too."""
        reply = action.reply.id if action.reply else ""
        if reply in self._refused:
            why = "Not run: the call before it was refused."
            self._session.emit(ErrorObservation(error_id="not_run", content=why, cause=action.id))
            return False
        if self._agent.tools.effect(action) == "execute" and _follows_failed_edit(
            self._session, action
        ):
            self._session.emit(
                ErrorObservation(error_id="not_run", content=_AFTER_EDIT, cause=action.id)
            )
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


def _follows_failed_edit(session: SessionLog, action: Action) -> bool:
    """Whether an edit that came before `action` in the same reply could not be made."""
    if action.reply is None:
        return False
    failed: set[int | None] = set()
    for event in reversed(session.events):
        if isinstance(event, ErrorObservation) and event.error_id not in ("not_run", "no_change"):
            failed.add(event.cause)
        elif event.reply is not None:
            if event.reply.id != action.reply.id:
                return False
            if event.id < action.id and event.id in failed and isinstance(event, _EDITS):
                return True
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


def execute(agent: Agent, session: SessionLog, actions: Sequence[Action]) -> None:
    """Run allowed actions that belong together, and record the result of each. On an interrupt,
    those that have begun get an observation that says so, and the interrupt is raised on."""
    checkpoint_before(agent, session, actions)
    for action in actions:
        session.notify(Status("running", action.message))
    by_id = {action.id: action for action in actions}
    try:
        for observation in _carry_out(agent, session, actions):
            session.emit(observation)
            record_git_cleanup(agent, session)
            if agent.hooks is not None and observation.cause in by_id:
                agent.hooks.after(session, by_id[observation.cause], observation)
    except TurnInterrupted as interrupt:
        if not _is_asking(session):
            why = interrupt.model_message
            content = f"Cut off while this was running ({why}); its effect is unknown."
            begun = [action for action in _unreported(session) if action.id in by_id]
            _record_interrupted(session, begun, content)
        raise


def _carry_out(
    agent: Agent, session: SessionLog, actions: Sequence[Action]
) -> Iterator[Observation]:
    """Run delegations by the children, tool calls by the tools; a group never has both."""
    delegated = [action for action in actions if isinstance(action, AgentDelegateAction)]
    if delegated and agent.children is not None:
        return agent.children().carry_out(delegated)
    return agent.tools.execute_all(
        actions, lambda action_id, text: session.notify(ToolOutput(action_id, text))
    )


def _unreported(session: SessionLog) -> list[Action]:
    """Return the open actions up to the first delegation. A delegation needs no report, because it
    resumes where its child stopped."""
    return without_delegated(session.pending_actions())


def record_not_started(session: SessionLog, interrupt: TurnInterrupted) -> None:
    """Record which actions had not begun when an interrupt came. An open question to the user stays
    open, to be asked again."""
    if not _is_asking(session):
        content = f"Not started: the turn came to an end first ({interrupt.model_message})."
        _record_interrupted(session, _unreported(session), content)


def _is_asking(session: SessionLog) -> bool:
    return session.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION


def _record_interrupted(session: SessionLog, actions: Sequence[Action], content: str) -> None:
    for action in actions:
        session.emit(ErrorObservation(error_id="interrupted", content=content, cause=action.id))


def checkpoint_before(agent: Agent, session: SessionLog, actions: Sequence[Action]) -> None:
    """Take a checkpoint of the workspace if `actions` may change it."""
    if agent.checkpointer is not None:
        step = session.state.iteration
        if kept := agent.checkpointer.before(actions, step, show_saving(session)):
            session.emit(kept)


def checkpoint_after_turn(agent: Agent, session: SessionLog) -> None:
    """Take a checkpoint of the workspace as the turn leaves it, if it may have changed, with
    nothing in it that git would run for whoever comes next."""
    if agent.git is not None:
        agent.git.end_turn()
        record_git_cleanup(agent, session)
    if agent.checkpointer is not None and (
        kept := agent.checkpointer.at_turn_end(show_saving(session))
    ):
        session.emit(kept)


def record_git_cleanup(agent: Agent, session: SessionLog) -> None:
    """Record what the git watch has put right in the meantime."""
    for observation in agent.git.observations() if agent.git is not None else ():
        session.emit(observation)


def show_saving(session: SessionLog) -> Callable[[], None]:
    """Return a function that tells the user that a checkpoint is taking its time."""
    return lambda: session.notify(Status("saving", "a copy of the workspace, to be able to undo"))
