"""Asks one question of a model in another role than the main one, outside the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.events import Event, LLMMetrics
from agentcli.events.observations import AttemptsAbandonedObservation
from agentcli.messages import Message, Reply, Request

if TYPE_CHECKING:
    from agentcli.agent.run_limits import Limits
    from agentcli.llm.roles import Roles
    from agentcli.sessions.session import Session


def ask_role(
    models: Roles, session: Session, limits: Limits, role: str, prompt: str, most_tokens: int
) -> tuple[Reply, LLMMetrics]:
    """Return the reply of the model in `role`, and its cost for the caller to record. Raises
    LLMError."""
    chain = models.chain(role)
    chain.begin_turn()
    request = Request(
        messages=[Message.user_message(prompt)],
        tools=(),
        max_output_tokens=most_tokens,
        session_id=session.id,
        budget_usd=limits.left_usd(session.state),
    )
    reply = chain.complete(request, lambda progress: None, costs_only(session))
    return reply, LLMMetrics.of(reply, role)


def costs_only(session: Session) -> Callable[[Event], Event]:
    """Return what records the events of a chain in another role: only those about money, because
    the session's state and model follow the main role."""

    def record(event: Event) -> Event:
        return session.emit(event) if isinstance(event, AttemptsAbandonedObservation) else event

    return record
