"""One call of the model: the request made of the session, and the reply recorded in it."""

from __future__ import annotations

from agentcli.agent.agent import Agent
from agentcli.agent.replies import actions_of
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events.progress import Status, StepDone
from agentcli.messages import Reply, Request, ToolChoice
from agentcli.sessions.session import Session

_TOO_LONG = (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.PAYLOAD_TOO_LARGE)


def ask(agent: Agent, session: Session, *, last_words: bool = False) -> None:
    """Record what the model says and wants to do next, in one group. `last_words`: it may call no
    tool, and may use what was kept back for that. Raises LLMError."""
    try:
        reply = _reply(agent, session, last_words)
    except LLMError as error:
        if error.kind not in _TOO_LONG:
            raise
        condensation = agent.memory.slide(session.events, agent.memory.tokens(session.events) / 2)
        if condensation is None:
            raise
        session.emit(condensation)
        reply = _reply(agent, session, last_words)
    agent.memory.learn(reply.usage.prompt_tokens)
    session.emit_group(actions_of(reply, agent.tools))
    session.notify(StepDone(session.state.iteration))


def _reply(agent: Agent, session: Session, last_words: bool) -> Reply:
    if last_words:
        return _complete(agent, session, ToolChoice.NONE, 0)
    reserve = agent.limits.summary_tokens
    try:
        return _complete(agent, session, ToolChoice.AUTO, reserve)
    except LLMError as error:
        # Where there is money for one call only, that one does work.
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
