"""The summary at a limit: what was done and what is left; and how work continues after it.

One message of the environment asks for the summary and another says that work continues, so that a
replay, a resume and the provider's prompt cache see the same conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from agentcli.agent.agent import Agent
from agentcli.agent.ending import Ending
from agentcli.agent.model_call import call_model
from agentcli.agent.replies import asks_for_summary, is_summary_due
from agentcli.errors import LLMError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.live import newest_first
from agentcli.events.progress import Notice
from agentcli.interrupts import Countdown, OutOfTime
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState

_GO_ON = "[You may work on: go on with the task where you left off.]"


def write_summary(
    agent: Agent, session: Session, ending: Ending, countdown: Countdown | None
) -> bool:
    """Have the model sum up its work at this limit, unless nothing was done since the last summary.
    Return whether there is a summary. Raises TurnInterrupted only if the user interrupts."""
    has_room = agent.limits.room_for_summary(session.state, countdown)
    if is_summary_due(session.events):
        if _answer(session.events) or not has_room:
            return bool(_answer(session.events))
    elif _worked_since_last(session.events) and has_room:
        session.emit(_request(ending))
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


def tell_work_continues(session: Session) -> None:
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
        if isinstance(event, MessageAction):
            return event.content.strip() if event.source is Source.AGENT else ""
    return ""


def _request(ending: Ending) -> MessageAction:
    return MessageAction(
        content=f"[Stop here: {ending.content}. Call no more tools. Say in a few lines, for the "
        "user who gave you the task, what was done, what you know to work, and what is left to "
        "do.]",
        source=Source.ENVIRONMENT,
        wait_for_response=True,
    )
