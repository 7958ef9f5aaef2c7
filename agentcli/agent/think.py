"""Ask the model: prepare the conversation, send the request, record the reply; sum up at a limit.

One message of the environment asks for the summary and another says that work continues, so that a
replay, a resume and the provider's prompt cache see the same conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache

from agentcli.agent.agent import Agent
from agentcli.agent.ending import Ending
from agentcli.agent.replies import asks_for_summary, events_of, is_situation, is_summary_due
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events import Event, Source
from agentcli.events.actions import SITUATION, MessageAction
from agentcli.events.conversation import newest_first
from agentcli.events.observations import RequestAdaptedObservation
from agentcli.events.progress import Notice, Status, StepDone
from agentcli.interrupts import Countdown, OutOfTime
from agentcli.memory.context_use import context_use
from agentcli.messages import Request, ToolChoice
from agentcli.sessions import inbox
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import AgentState

_TOO_LONG = (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.PAYLOAD_TOO_LARGE)
_MOST_ATTEMPTS = 4
_MOST_NAMED = 3
_CUT = 0.75
"""Share of our estimate below which a count that can't be true means that a prompt was cut."""


def call_model(agent: Agent, session: SessionLog, *, only_text: bool = False) -> None:
    """Record what the model says and wants to do next, as one group. With `only_text` it may not
    call tools, and may spend the reserve kept for that. A request that turns out too long is
    shortened, a few times at most. Raises LLMError."""
    choice = ToolChoice.NONE if only_text else ToolChoice.AUTO
    reserve = 0 if only_text else agent.limits.summary_tokens
    attempts_left = _MOST_ATTEMPTS
    while True:
        cap, before = _reply_cap(agent, session), len(session.events)
        try:
            request = _request(agent, session, choice, reserve)
            reply = agent.llm.complete(request, session.notify, session.emit)
            break
        except LLMError as error:
            if error.kind is LLMErrorKind.BUDGET and reserve and not session.state.local_iteration:
                # If the money is enough for one call only, that is for work, not for a summary.
                reserve = 0
                continue
            if error.kind not in _TOO_LONG:
                raise
            attempts_left -= 1
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


def _learn(agent: Agent, session: SessionLog, before: int, counted: int, cap: int) -> None:
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


def _reply_cap(agent: Agent, session: SessionLog) -> int:
    """Return the cap for the next reply: what the settings allow, or what room the prompt leaves
    in the window."""
    tokens = agent.memory.tokens(session.events)
    return agent.memory.model_window.reply_tokens(tokens, agent.max_output_tokens)


def _tell_if_cut(agent: Agent, session: SessionLog, counted: int) -> None:
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


def _with_the_largest(error: LLMError, agent: Agent, session: SessionLog) -> LLMError:
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


def _request(agent: Agent, session: SessionLog, choice: ToolChoice, reserve_tokens: int) -> Request:
    """Return the next request. Raises LLMError if it is too long to be sent."""
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
    return request


def condense(agent: Agent, session: SessionLog) -> None:
    """Condense the conversation if that is due. Before the first time, the model is reminded to
    note what it wants to keep, if there is room for that. A hook may postpone it; it is asked once,
    before a model is paid."""
    has_room = agent.memory.due(session.events) and not agent.memory.is_full(session.events)
    if has_room and (reminder := agent.last_notes(session.events)):
        session.emit(reminder)
        return

    @cache
    def permit() -> bool:
        return agent.hooks is None or not agent.hooks.compacting(session, "high_water")

    if condensation := agent.memory.condense(session.events, permit):
        session.emit(condensation)
        if condensation.forgotten_ids() and (told := agent.situation()):
            session.emit(situation_message(told))


def situation_message(told: str) -> MessageAction:
    """Return the message that says where the session is now."""
    return MessageAction(content=told, source=Source.ENVIRONMENT, nudge=SITUATION)


_GO_ON = "[You may work on: go on with the task where you left off.]"


def write_summary(
    agent: Agent, session: SessionLog, ending: Ending, countdown: Countdown | None
) -> bool:
    """Have the model sum up its work at this limit, unless nothing was done since the last summary.
    Return whether there is a summary. Raises TurnInterrupted only if the user interrupts."""
    if session.pending_actions():
        # A delegation that the limit left open continues later, so there is nothing to sum up yet.
        return False
    has_room = agent.limits.room_for_summary(session.state, countdown)
    if is_summary_due(session.events):
        if _answer(session.events) or not has_room:
            return bool(_answer(session.events))
    elif _worked_since_last(session.events) and has_room:
        session.emit(_summary_request(ending))
    else:
        return False
    if session.state.agent_state is not AgentState.RUNNING:
        session.change_state(AgentState.RUNNING)
    session.notify(Notice(f"{ending.content}; asking for a summary"))
    try:
        with countdown.interrupting() if countdown else nullcontext():
            call_model(agent, session, only_text=True)
    except LLMError as error:
        session.notify(Notice(f"no summary: {error.message}"))
    except OutOfTime:
        session.notify(Notice("no summary: there was no time left for it"))
    return bool(_answer(session.events))


def tell_work_continues(session: SessionLog) -> None:
    """Tell the model that it may continue, if the last thing it was told is to stop and sum up."""
    if is_summary_due(session.events):
        session.emit(MessageAction(content=_GO_ON, source=Source.ENVIRONMENT))


def _worked_since_last(events: Sequence[Event]) -> bool:
    """Whether the agent did anything since the user spoke or it was last asked to sum up."""
    for event in newest_first(events):
        if event.tool_call_metadata is not None:
            return True
        if event.source is Source.USER or asks_for_summary(event):
            return False
    return False


def _answer(events: Sequence[Event]) -> str:
    """Return what the model said after it was asked to sum up."""
    for event in newest_first(events):
        if isinstance(event, MessageAction) and not is_situation(event):
            return event.content.strip() if event.source is Source.AGENT else ""
    return ""


def _summary_request(ending: Ending) -> MessageAction:
    return MessageAction(
        content=f"[Stop here: {ending.content}. Call no more tools. Say in a few lines, for the "
        "user who gave you the task, what was done, what you know to work, and what is left to "
        "do.]",
        source=Source.ENVIRONMENT,
        wait_for_response=True,
    )


def deliver_queued(agent: Agent, session: SessionLog, delivery: inbox.Delivery) -> bool:
    """Record the messages in the inbox with this `delivery`, and the knowledge that they call for.
    A message that a hook refuses is dropped, and the user is told why. Return whether any was
    recorded."""
    waiting = [m for m in inbox.waiting(session.folder) if m.delivery == delivery]
    recorded = inbox.already_recorded(session.events) if waiting else set()
    delivered = False
    for message in waiting:
        if message.id not in recorded:
            if agent.hooks and (why := agent.hooks.submitting(session, message.text)):
                session.notify(Notice(f"the message {message.text[:40]!r} is not taken: {why}"))
            else:
                session.emit(
                    MessageAction(
                        content=message.text,
                        source=Source.USER,
                        image_urls=message.image_urls,
                        delivery=delivery,
                        inbox_id=message.id,
                    )
                )
                delivered = True
        inbox.remove(session.folder, message.id)
    if delivered:
        agent.inform(session)
    return delivered
