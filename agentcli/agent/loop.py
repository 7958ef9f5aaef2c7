"""The loop: think, act, until the task is over, a limit is reached or someone interrupts.

Everything the model is shown is projected from the session's events, everything it wants is
recorded before it is done, everything that came of it is recorded after.
"""

from __future__ import annotations

from collections.abc import Callable

from agentcli.agent.agent import Agent, Ending, TurnResult
from agentcli.agent.authorise import allowed, batches
from agentcli.agent.replies import actions_of, last_answer, verdict
from agentcli.errors import LLMError, LLMErrorKind, TurnInterrupted
from agentcli.events.observations import CheckpointObservation
from agentcli.events.progress import Status, StepDone, ToolOutput
from agentcli.interrupts import shield
from agentcli.messages import Reply, Request
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def run_turn(agent: Agent, session: Session) -> TurnResult:
    """Work on what the session's newest messages ask for. Raises SessionError only: what happens
    to the model or the tools is in the result and in the session."""
    session.change_state(AgentState.RUNNING)
    agent.llm.begin_turn()
    try:
        while True:
            act(agent, session)
            session.take_letters("steer")
            ending = verdict(session.events, interactive=agent.interactive)
            if ending and session.take_letters("queue"):
                continue
            if ending := ending or agent.limits.reached(session.state):
                break
            think(agent, session)
    except LLMError as error:
        ending = agent.limits.failed(error, session.state)
    except TurnInterrupted as interrupt:
        ending = stop(session, interrupt)
    with shield():
        if agent.checkpointer is not None:
            keep(session, agent.checkpointer.at_turn_end(_saving(session)))
        session.change_state(ending.agent_state, ending.reason, ending.content, ending.exit_code)
    return TurnResult(ending, last_answer(session.events))


def think(agent: Agent, session: Session) -> None:
    """Ask the model and record what it says and wants to do."""
    if condensation := agent.memory.condense(session.events):
        session.emit(condensation)
    try:
        reply = _ask(agent, session)
    except LLMError as error:
        if error.kind not in (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.PAYLOAD_TOO_LARGE):
            raise
        condensation = agent.memory.slide(session.events, agent.memory.tokens(session.events) / 2)
        if condensation is None:
            raise
        session.emit(condensation)
        reply = _ask(agent, session)
    agent.memory.learn(reply.usage.prompt_tokens)
    session.emit_group(actions_of(reply, agent.tools))
    session.notify(StepDone(session.state.iteration))


def act(agent: Agent, session: Session) -> None:
    """Carry out the recorded actions that have no observation yet."""
    for batch in batches(session.pending_actions(), agent.tools):
        permitted = [action for action in batch if allowed(agent, session, action)]
        if agent.checkpointer is not None:
            step = session.state.iteration
            keep(session, agent.checkpointer.before(permitted, step, _saving(session)))
        for action in permitted:
            session.notify(Status("running", action.message))
        for observation in agent.tools.execute_all(
            permitted, lambda action_id, text: session.notify(ToolOutput(action_id, text))
        ):
            session.emit(observation)


def keep(session: Session, checkpoint: CheckpointObservation | None) -> None:
    """Record that the workspace was kept as it is."""
    if checkpoint is not None:
        session.emit(checkpoint)


def stop(session: Session, interrupt: TurnInterrupted) -> Ending:
    """Account for what was going on when the turn was interrupted; a question to the person that
    was left open is asked again."""
    if session.state.agent_state is not AgentState.AWAITING_USER_CONFIRMATION:
        session.answer_pending(
            f"{interrupt.reason.capitalize()} while this was running; its effect is unknown.",
            f"Not started: the turn was {interrupt.reason} first.",
        )
    return Ending(AgentState.PAUSED, interrupt.reason, "", interrupt.exit_code)


def _saving(session: Session) -> Callable[[], None]:
    return lambda: session.notify(Status("saving", "a copy of the workspace, to be able to undo"))


def _ask(agent: Agent, session: Session) -> Reply:
    request = Request(
        messages=agent.memory.window(session.events),
        tools=agent.schemas,
        max_output_tokens=agent.max_output_tokens,
        session_id=session.id,
        effort=agent.effort,
        temperature=agent.temperature,
        estimated_tokens=agent.memory.tokens(session.events),
        budget_usd=agent.limits.left_usd(session.state),
    )
    if change := agent.prefix.change(request, session.events):
        session.emit(change)
    session.notify(Status("thinking"))
    return agent.llm.complete(request, session.notify, session.emit)
