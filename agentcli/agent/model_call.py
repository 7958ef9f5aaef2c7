"""One model call: the session becomes a request, and the reply is recorded in the session."""

from __future__ import annotations

from agentcli.agent.agent import Agent
from agentcli.agent.replies import events_of
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events.observations import RequestAdaptedObservation
from agentcli.events.progress import Notice, Status, StepDone
from agentcli.memory.context_use import context_use
from agentcli.messages import Reply, Request, ToolChoice
from agentcli.sessions.session import Session

_TOO_LONG = (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.PAYLOAD_TOO_LARGE)
_MOST_ATTEMPTS = 4
_MOST_NAMED = 3
_CUT = 0.75
"""Share of our estimate below which a count that can't be true means that a prompt was cut."""


def call_model(agent: Agent, session: Session, *, only_text: bool = False) -> None:
    """Record what the model says and wants to do next, as one group. With `only_text` it may not
    call tools, and may spend the reserve kept for that. A request that turns out too long is
    shortened, a few times at most. Raises LLMError."""
    for attempts_left in reversed(range(_MOST_ATTEMPTS)):
        cap, before = _reply_cap(agent, session), len(session.events)
        try:
            reply = _reply(agent, session, only_text)
            break
        except LLMError as error:
            if error.kind not in _TOO_LONG:
                raise
            words = error.said or error.message
            condensation = agent.memory.condense_overflow(session.events, cap, words)
            if condensation is not None:
                session.emit(condensation)
            shorter = condensation is not None or _reply_cap(agent, session) < cap
            if not shorter or not attempts_left:
                raise _with_the_largest(error, agent, session) from error
    _learn(agent, session, before, reply.usage.prompt_tokens, cap)
    session.emit_group(events_of(reply, agent.tools))
    session.notify(StepDone(session.state.iteration))


def _learn(agent: Agent, session: Session, before: int, counted: int, cap: int) -> None:
    """Have the memory learn from an answered request: from the provider's count of its tokens, and
    from what room a refusal, which is among the events after the first `before`, said to be beside
    them."""
    new = session.events[before:]
    rooms = [e.reply_tokens for e in new if isinstance(e, RequestAdaptedObservation)]
    room = min(filter(None, rooms), default=0)
    if not agent.memory.learn(counted, room or cap):
        _tell_if_cut(agent, session, counted)
    if room:
        agent.memory.model_window.was_measured(agent.memory.tokens_sent + room)


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


def _reply_cap(agent: Agent, session: Session) -> int:
    """Return the cap for the next reply: what the settings allow, or what room the prompt leaves
    in the window."""
    tokens = agent.memory.tokens(session.events)
    return agent.memory.model_window.reply_tokens(tokens, agent.max_output_tokens)


def _tell_if_cut(agent: Agent, session: Session, counted: int) -> None:
    """Tell, once, that the server reads only a part of what it is sent, as Ollama does silently."""
    tokens = agent.memory.tokens(session.events)
    if agent.memory.told_of_cut or not 0 < counted < tokens * _CUT:
        return
    agent.memory.told_of_cut = True
    session.notify(
        Notice(
            f"the server counted {counted:,} tokens of a prompt of about {tokens:,}: it seems to "
            "cut what is longer than the window it runs with. Give it a larger one (Ollama: "
            "OLLAMA_CONTEXT_LENGTH=32768 ollama serve), or keep within this one: --set "
            f"model.context_tokens={counted}"
        )
    )


def _with_the_largest(error: LLMError, agent: Agent, session: Session) -> LLMError:
    """Return `error`, a request that was too long and can't be made shorter, with what of it is
    largest."""
    window = agent.memory.model_window.tokens
    use = context_use(session.events, window, agent.max_output_tokens)
    parts = [f"{part.about} ({part.kind}, about {part.tokens:,} tokens)" for part in use.biggest]
    return LLMError(
        error.kind,
        f"{error.message}. The largest of what can't be left out: {'; '.join(parts[:_MOST_NAMED])}",
        status=error.status,
        hint="make that shorter, or go on with a model of a larger window: -m provider/model; if "
        "this one takes more, say so: --set model.context_tokens=…",
    )


def _complete(agent: Agent, session: Session, choice: ToolChoice, reserve_tokens: int) -> Reply:
    tokens, window = agent.memory.tokens(session.events), agent.memory.model_window
    if window.refuses(tokens):
        raise LLMError(
            LLMErrorKind.CONTEXT_OVERFLOW,
            f"the request has about {tokens:,} tokens, the window of the model {window.tokens:,}",
        )
    request = Request(
        messages=agent.memory.window(session.events),
        tools=agent.schemas,
        tool_choice=choice,
        max_output_tokens=_reply_cap(agent, session),
        session_id=session.id,
        effort=agent.effort,
        temperature=agent.temperature,
        estimated_tokens=tokens,
        budget_usd=agent.limits.left_usd(session.state),
        reserve_tokens=reserve_tokens,
    )
    if change := agent.prefix.change(request, session.events):
        session.emit(change)
    session.notify(Status("thinking"))
    return agent.llm.complete(request, session.notify, session.emit)
