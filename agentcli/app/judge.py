"""Asks a model how risky an action is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.events import Event, LLMMetrics
from agentcli.events.observations import AttemptsAbandonedObservation, RiskJudgedObservation
from agentcli.events.progress import Status
from agentcli.messages import Message, Request

if TYPE_CHECKING:
    from agentcli.agent.run_limits import Limits
    from agentcli.llm.roles import Roles
    from agentcli.sessions.session import Session

ROLE = "judge"
_MAX_OUTPUT_TOKENS = 1_024
"""For a line of answer, and what a model reasons before it."""


def ask_judge(models: Roles, session: Session, limits: Limits) -> Callable[[str], str]:
    """Sends one prompt to the judge and returns its text; what it said, and what that cost, is
    recorded. Raises LLMError."""

    def keep(event: Event) -> Event:
        # A session's state and model are those of the main role.
        return session.emit(event) if isinstance(event, AttemptsAbandonedObservation) else event

    def ask(prompt: str) -> str:
        session.notify(Status("thinking", "the risk is being judged"))
        chain = models.chain(ROLE)
        chain.begin_turn()
        request = Request(
            messages=[Message.user_message(prompt)],
            tools=(),
            max_output_tokens=_MAX_OUTPUT_TOKENS,
            session_id=session.id,
            budget_usd=limits.left_usd(session.state),
        )
        reply = chain.complete(request, lambda progress: None, keep)
        session.emit(
            RiskJudgedObservation(content=reply.text, llm_metrics=LLMMetrics.of(reply, ROLE))
        )
        return reply.text

    return ask
