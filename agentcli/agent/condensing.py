"""Condensing the conversation before a model call."""

from __future__ import annotations

from functools import cache

from agentcli.agent.agent import Agent
from agentcli.sessions.session import Session


def condense(agent: Agent, session: Session) -> None:
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
