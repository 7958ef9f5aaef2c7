"""One model call: the session becomes a request, and the reply is recorded in the session."""

from __future__ import annotations

from agentcli.agent.agent import Agent
from agentcli.agent.replies import events_of
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events.progress import Status, StepDone
from agentcli.messages import Reply, Request, ToolChoice
from agentcli.sessions.session import Session

_TOO_LONG = (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.PAYLOAD_TOO_LARGE)


def call_model(agent: Agent, session: Session, *, only_text: bool = False) -> None:
    """Record what the model says and wants to do next, as one group. With `only_text` it may not
    call tools, and may spend the reserve kept for that. A request that turns out too long is
    shortened once. Raises LLMError."""
    try:
        reply = _reply(agent, session, only_text)
    except LLMError as error:
        if error.kind not in _TOO_LONG:
            raise
        half = agent.memory.tokens(session.events) / 2
        condensation = agent.memory.condense_overflow(session.events, half)
        if condensation is None:
            raise
        session.emit(condensation)
        reply = _reply(agent, session, only_text)
    agent.memory.learn(reply.usage.prompt_tokens)
    session.emit_group(events_of(reply, agent.tools))
    session.notify(StepDone(session.state.iteration))


def _reply(agent: Agent, session: Session, only_text: bool) -> Reply:
    if only_text:
        return _complete(agent, session, ToolChoice.NONE, 0)
    reserve = agent.limits.summary_tokens
    try:
        return _complete(agent, session, ToolChoice.AUTO, reserve)
    except LLMError as error:
        # If the money is enough for one call only, that call is for work, not for a summary.
        if error.kind is not LLMErrorKind.BUDGET or not reserve or session.state.local_iteration:
            raise
        return _complete(agent, session, ToolChoice.AUTO, 0)


def _complete(agent: Agent, session: Session, choice: ToolChoice, reserve_tokens: int) -> Reply:
    request = Request(
        messages=agent.memory.window(session.events),
        tools=agent.schemas,
        tool_choice=choice,
        max_output_tokens=agent.max_output_tokens,
        session_id=session.id,
        effort=agent.effort,
        temperature=agent.temperature,
        estimated_tokens=agent.memory.tokens(session.events),
        budget_usd=agent.limits.left_usd(session.state),
        reserve_tokens=reserve_tokens,
    )
    if change := agent.prefix.change(request, session.events):
        session.emit(change)
    session.notify(Status("thinking"))
    return agent.llm.complete(request, session.notify, session.emit)
