"""Questions from the model to the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.agent.agent import Approver
from agentcli.events import Source
from agentcli.events.actions import AskUserAction, MessageAction
from agentcli.events.live import newest_first
from agentcli.interrupts import pause_countdown
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def asking(approver: Approver, session: Session) -> Callable[[str, Sequence[str]], str | None]:
    """Return a function that asks the user. In the meantime the session counts as waiting: if that
    is cut off, the question stays open and is asked again, unless the user says something else
    first."""

    def ask(question: str, options: Sequence[str]) -> str | None:
        if _has_spoken(session):
            return None
        session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
        with pause_countdown():
            answer = approver.answer(question, options)
        session.change_state(AgentState.RUNNING)
        return answer

    return ask


def _has_spoken(session: Session) -> bool:
    """Whether the user has said something since the newest question."""
    for event in newest_first(session.events):
        if isinstance(event, AskUserAction):
            return False
        if isinstance(event, MessageAction) and event.source is Source.USER:
            return True
    return False
