"""What comes before the conversation is condensed, and what the person says meanwhile."""

from __future__ import annotations

from functools import cache
from typing import Literal

from agentcli.agent.agent import Agent
from agentcli.sessions.session import Session


def condense(agent: Agent, session: Session) -> None:
    """Condense the conversation where that is due. Before the first time the model may note what it
    wants to keep. A hook may put it off: it is asked once, before a model is paid to sum up."""
    if agent.memory.due(session.events) and (reminder := agent.last_notes(session.events)):
        session.emit(reminder)
        return

    @cache
    def permit() -> bool:
        return agent.hooks is None or not agent.hooks.compacting(session, "high_water")

    condensation = agent.memory.condense(session.events, permit)
    if condensation:
        session.emit(condensation)


def deliver_queued(agent: Agent, session: Session, delivery: Literal["steer", "queue"]) -> bool:
    """Whether the person said something to be delivered so; what it brings up is recorded too."""
    refuse = agent.hooks.submitting if agent.hooks is not None else lambda session, text: ""
    heard = session.deliver_queued(delivery, lambda text: refuse(session, text)) > 0
    if heard:
        agent.recall(session)
    return heard
