"""Executes recorded actions, takes the checkpoints around them, and records observations for those
that an interrupt cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agentcli.agent.agent import Agent
from agentcli.errors import TurnInterrupted
from agentcli.events import Action, Observation
from agentcli.events.actions import AgentDelegateAction
from agentcli.events.observations import ErrorObservation
from agentcli.events.progress import Status, ToolOutput
from agentcli.sessions.recovery import without_delegated
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def execute(agent: Agent, session: Session, actions: Sequence[Action]) -> None:
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


def _carry_out(agent: Agent, session: Session, actions: Sequence[Action]) -> Iterator[Observation]:
    """Run delegations by the children, tool calls by the tools; a group never has both."""
    delegated = [action for action in actions if isinstance(action, AgentDelegateAction)]
    if delegated and agent.children is not None:
        return agent.children.carry_out(delegated)
    return agent.tools.execute_all(
        actions, lambda action_id, text: session.notify(ToolOutput(action_id, text))
    )


def _unreported(session: Session) -> list[Action]:
    """Return the open actions up to the first delegation. A delegation needs no report, because it
    resumes where its child stopped."""
    return without_delegated(session.pending_actions())


def record_not_started(session: Session, interrupt: TurnInterrupted) -> None:
    """Record which actions had not begun when an interrupt came. An open question to the user stays
    open, to be asked again."""
    if not _is_asking(session):
        content = f"Not started: the turn came to an end first ({interrupt.model_message})."
        _record_interrupted(session, _unreported(session), content)


def _is_asking(session: Session) -> bool:
    return session.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION


def _record_interrupted(session: Session, actions: Sequence[Action], content: str) -> None:
    for action in actions:
        session.emit(ErrorObservation(error_id="interrupted", content=content, cause=action.id))


def checkpoint_before(agent: Agent, session: Session, actions: Sequence[Action]) -> None:
    """Take a checkpoint of the workspace if `actions` may change it."""
    if agent.checkpointer is not None:
        step = session.state.iteration
        if kept := agent.checkpointer.before(actions, step, show_saving(session)):
            session.emit(kept)


def checkpoint_after_turn(agent: Agent, session: Session) -> None:
    """Take a checkpoint of the workspace as the turn leaves it, if it may have changed, with
    nothing in it that git would run for whoever comes next."""
    if agent.git is not None:
        agent.git.end_turn()
        record_git_cleanup(agent, session)
    if agent.checkpointer is not None and (
        kept := agent.checkpointer.at_turn_end(show_saving(session))
    ):
        session.emit(kept)


def record_git_cleanup(agent: Agent, session: Session) -> None:
    """Record what the git watch has put right in the meantime."""
    for observation in agent.git.observations() if agent.git is not None else ():
        session.emit(observation)


def show_saving(session: Session) -> Callable[[], None]:
    """Return a function that tells the user that a checkpoint is taking its time."""
    return lambda: session.notify(Status("saving", "a copy of the workspace, to be able to undo"))
