"""Carrying out recorded actions, and accounting for those that an interrupt cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.agent.agent import Agent
from agentcli.errors import TurnInterrupted
from agentcli.events import Action
from agentcli.events.observations import CheckpointObservation, ErrorObservation
from agentcli.events.progress import Status, ToolOutput
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def carry_out(agent: Agent, session: Session, actions: Sequence[Action]) -> None:
    """Run permitted actions that belong together and record what came of each. Whatever had begun
    when an interrupt came is told so; the interrupt goes on."""
    keep_before(agent, session, actions)
    for action in actions:
        session.notify(Status("running", action.message))
    by_id = {action.id: action for action in actions}
    try:
        for observation in agent.tools.execute_all(
            actions, lambda action_id, text: session.notify(ToolOutput(action_id, text))
        ):
            session.emit(observation)
            record_set_aside(agent, session)
            if agent.hooks is not None and observation.cause in by_id:
                agent.hooks.after(session, by_id[observation.cause], observation)
    except TurnInterrupted as interrupt:
        told = f"Cut off while this was running ({interrupt.told}); its effect is unknown."
        _account_for(session, told, by_id)
        raise


def account_for_rest(session: Session, interrupt: TurnInterrupted) -> None:
    """Tell what was not begun when an interrupt came. A question to the person that was left open
    is asked again."""
    if session.state.agent_state is not AgentState.AWAITING_USER_CONFIRMATION:
        _account_for(session, f"Not started: the turn came to an end first ({interrupt.told}).")


def _account_for(session: Session, told: str, only: dict[int, Action] | None = None) -> None:
    for action in session.pending_actions():
        if only is None or action.id in only:
            session.emit(ErrorObservation(error_id="interrupted", content=told, cause=action.id))


def keep_before(agent: Agent, session: Session, actions: Sequence[Action]) -> None:
    """Keep the workspace as it is, if `actions` may change it."""
    if agent.checkpointer is not None:
        step = session.state.iteration
        _record(session, agent.checkpointer.before(actions, step, saving(session)))


def keep_at_end(agent: Agent, session: Session) -> None:
    """Keep the workspace as the turn leaves it, if it may have been changed, with nothing in it
    that git would run for whoever comes next."""
    if agent.git is not None:
        agent.git.end_turn()
        record_set_aside(agent, session)
    if agent.checkpointer is not None:
        _record(session, agent.checkpointer.at_turn_end(saving(session)))


def record_set_aside(agent: Agent, session: Session) -> None:
    for observation in agent.git.observations() if agent.git is not None else ():
        session.emit(observation)


def _record(session: Session, checkpoint: CheckpointObservation | None) -> None:
    if checkpoint is not None:
        session.emit(checkpoint)


def saving(session: Session) -> Callable[[], None]:
    """Shows that a checkpoint takes its time."""
    return lambda: session.notify(Status("saving", "a copy of the workspace, to be able to undo"))
