"""Asks a model how risky an action is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.app.side_models import ask_role
from agentcli.events.observations import RiskJudgedObservation
from agentcli.events.progress import Status

if TYPE_CHECKING:
    from agentcli.agent.run_limits import Limits
    from agentcli.llm.roles import Roles
    from agentcli.sessions.session import Session

ROLE = "judge"
_MAX_OUTPUT_TOKENS = 1_024
"""Enough for one line, and for the reasoning before it."""


def ask_judge(models: Roles, session: Session, limits: Limits) -> Callable[[str], str]:
    """Return a function that sends one prompt to the judge and returns its text; the answer and its
    cost are recorded. Raises LLMError."""

    def ask(prompt: str) -> str:
        session.notify(Status("thinking", "judging the risk"))
        reply, cost = ask_role(models, session, limits, ROLE, prompt, _MAX_OUTPUT_TOKENS)
        session.emit(RiskJudgedObservation(content=reply.text, llm_metrics=cost))
        return reply.text

    return ask
