"""The last words at a limit: what was done and what is left, and how work goes on after them.

An event of the environment asks for the summary, and another one says that the work goes on, so
that a replay, a resume and the provider's prompt cache see the same conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.agent import Agent, Ending
from agentcli.agent.model_call import ask
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


def sum_up(agent: Agent, session: Session, ending: Ending, countdown: Countdown | None) -> bool:
    """Whether there is a summary of the work up to this limit; the model is asked for it unless
    nothing was done since the last one. Only an interrupt by a person comes out of here as an
    exception."""
    if not is_summary_due(session.events):
        if _done_since_last(session.events) and agent.limits.room_for_summary(
            session.state, countdown
        ):
            session.emit(_request(ending))
        else:
            return False
    elif _answer(session.events) or not agent.limits.room_for_summary(session.state, countdown):
        return bool(_answer(session.events))
    if session.state.agent_state is not AgentState.RUNNING:
        session.change_state(AgentState.RUNNING)
    session.notify(Notice(f"{ending.content}; asking for a summary"))
    try:
        if countdown is None:
            ask(agent, session, last_words=True)
        else:
            with countdown.interrupting():
                ask(agent, session, last_words=True)
    except LLMError as error:
        session.notify(Notice(f"no summary: {error.message}"))
    except OutOfTime:
        session.notify(Notice("no summary: there was no time left for it"))
    return bool(_answer(session.events))


def go_on(session: Session) -> None:
    """Tell the model that it may work on, if the last thing it was told is to sum up."""
    if is_summary_due(session.events):
        session.emit(MessageAction(content=_GO_ON, source=Source.ENVIRONMENT))


def _done_since_last(events: Sequence[Event]) -> bool:
    """Whether the agent did anything since the user spoke and since it was last asked to sum up."""
    for event in newest_first(events):
        if event.tool_call_metadata is not None:
            return True
        if event.source is Source.USER or asks_for_summary(event):
            return False
    return False


def _answer(events: Sequence[Event]) -> str:
    """What the model said after it was asked to sum up."""
    for event in newest_first(events):
        if isinstance(event, MessageAction):
            return event.content.strip() if event.source is Source.AGENT else ""
    return ""


def _request(ending: Ending) -> MessageAction:
    return MessageAction(
        content=f"[Stop here: {ending.content}. Call no more tools. Say in a few lines, for the "
        "person who gave you the task, what was done, what you know to work, and what is left to "
        "do.]",
        source=Source.ENVIRONMENT,
        wait_for_response=True,
    )
