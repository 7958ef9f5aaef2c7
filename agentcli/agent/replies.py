"""Turns a model's reply into events, and decides whether it ends the turn."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from agentcli.agent.agent import Tools
from agentcli.agent.ending import Ending
from agentcli.errors import LLMErrorKind
from agentcli.events import Event, LLMMetrics, OpaqueReplyData, ReplyPart, Source
from agentcli.events.actions import SITUATION, AgentFinishAction, MessageAction
from agentcli.events.conversation import newest_first
from agentcli.events.observations import ErrorObservation, ReplyDiscardedObservation
from agentcli.messages import FinishReason, Reply
from agentcli.sessions.state import AgentState

_USABLE = (FinishReason.STOP, FinishReason.TOOL_CALLS)
_REFUSED = (FinishReason.REFUSAL, FinishReason.CONTENT_FILTER)
_REFUSED_REPLY = "refused_reply"
_MOST_REFUSALS = 2
"""Refusals with no usable reply in between; so the model is asked once again."""


def events_of(reply: Reply, tools: Tools) -> list[Event]:
    """Return the events of one reply: its text, then its calls in order, numbered as a group.

    If the reply did not end properly, only its text is kept, and an error tells the model that
    nothing of it was run. The error is part of the group: otherwise a crash between the two would
    leave text that looks like an answer.
    """
    usable = reply.finish_reason in _USABLE
    events: list[Event] = []
    if reply.text.strip() or reply.reasoning:
        events.append(MessageAction(content=reply.text, reasoning=reply.reasoning))
    if usable:
        events += [tools.parse(call) for call in reply.tool_calls]
    if not events:
        events.append(MessageAction(content=""))
    if fault := _fault(reply):
        error_id = _REFUSED_REPLY if reply.finish_reason in _REFUSED else "unusable_reply"
        events.append(ErrorObservation(error_id=error_id, content=fault))
    reply_id = uuid4().hex[:16]
    numbered = [
        event.model_copy(
            update={
                "response_id": reply.response_id,
                "reply": ReplyPart(id=reply_id, index=index, total=len(events)),
            }
        )
        for index, event in enumerate(events)
    ]
    data = reply.provider_data if usable else None
    numbered[0] = numbered[0].model_copy(
        update={
            "llm_metrics": LLMMetrics.of(reply),
            "provider_data": data and OpaqueReplyData(provider=data.provider, items=data.items),
        }
    )
    return numbered


def ending_of_reply(events: Sequence[Event], *, interactive: bool) -> Ending | None:
    """Return how the newest reply ends the turn; None if the turn goes on. If there is a user to
    talk to (`interactive`), a reply without calls hands over to them. A summary at a limit ends
    nothing."""
    if is_summary_due(events):
        return None
    reply = _newest_reply(events)
    for event in reply:
        if isinstance(event, AgentFinishAction):
            if event.status == "failure":
                return Ending(AgentState.FINISHED, "failure", event.final_thought, exit_code=1)
            return Ending(AgentState.FINISHED, "finished")
    if reply and _refusals(events) >= _MOST_REFUSALS:
        return Ending(
            AgentState.ERROR,
            LLMErrorKind.CONTENT_POLICY,
            "the model, or its provider's content filter, refused to answer",
            exit_code=4,
            hint="rephrase the task, or try another model: -m provider/model",
        )
    goes_on = (
        event.tool_call_metadata is not None or isinstance(event, ErrorObservation)
        for event in reply
    )
    if not reply or any(goes_on):
        return None
    if interactive:
        return Ending(AgentState.AWAITING_USER_INPUT, "answered")
    return Ending(AgentState.FINISHED, "finished")


def is_summary_due(events: Sequence[Event]) -> bool:
    """Whether the last message to the model asks for a summary at a limit, answered or not."""
    for event in newest_first(events):
        if is_situation(event):
            continue
        if isinstance(event, MessageAction) and event.source is not Source.AGENT:
            return asks_for_summary(event)
        if event.tool_call_metadata is not None:
            return False
    return False


def asks_for_summary(event: Event) -> bool:
    """Whether the event asks for a summary: no other environment message waits for a response."""
    return (
        isinstance(event, MessageAction)
        and event.source is Source.ENVIRONMENT
        and event.wait_for_response
    )


def is_situation(event: Event) -> bool:
    """Whether the event only says where the session is now, which calls for no reply."""
    return isinstance(event, MessageAction) and event.nudge == SITUATION


def _newest_reply(events: Sequence[Event]) -> list[Event]:
    """Return the events of the newest reply, unless the model was told something after it."""
    reply: list[Event] = []
    for event in newest_first(events):
        if is_situation(event):
            continue
        if event.reply is not None:
            if reply and reply[0].reply and reply[0].reply.id != event.reply.id:
                break
            reply.append(event)
        elif reply or event.source is Source.USER or _speaks_to_model(event):
            break
    return reply


def _refusals(events: Sequence[Event]) -> int:
    """Return how often the model refused since its last usable reply or the user's last message."""
    count = 0
    for event in newest_first(events):
        if isinstance(event, ErrorObservation) and event.reply is not None:
            count += event.error_id == _REFUSED_REPLY
        elif event.source is Source.USER or event.tool_call_metadata is not None:
            break
    return count


def _speaks_to_model(event: Event) -> bool:
    return event.cause is None and isinstance(
        event, ErrorObservation | MessageAction | ReplyDiscardedObservation
    )


def last_answer(events: Sequence[Event], *, any_turn: bool = False) -> str:
    """Return the agent's last words in this turn, or in any: the answer it finished with, else its
    last text."""
    for event in newest_first(events):
        if isinstance(event, AgentFinishAction) and event.final_thought:
            return event.final_thought
        if isinstance(event, MessageAction):
            if event.source is Source.USER and not any_turn:
                return ""
            if event.source is Source.AGENT and event.content.strip():
                return event.content
    return ""


def _fault(reply: Reply) -> str:
    if reply.finish_reason in (FinishReason.LENGTH, FinishReason.PAUSED):
        return (
            f"Your reply was cut off at {reply.usage.completion_tokens:,} tokens and nothing of it "
            "was run. Go on in smaller pieces."
        )
    if reply.finish_reason in _REFUSED:
        return "Your reply was stopped by the provider's content filter; nothing of it was run."
    if reply.finish_reason is FinishReason.TOOL_CALLS and not reply.tool_calls:
        return "Your reply announced tool calls but had none. Call the tools, or give your answer."
    if not reply.text.strip() and not reply.tool_calls:
        return "Your reply was empty. Go on with the task, or say what you found."
    return ""
