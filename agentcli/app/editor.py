"""Asks a model to merge the sketch of an edit into the lines it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.app.side_models import ask_role
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events.observations import TextMergedObservation
from agentcli.events.progress import Status

if TYPE_CHECKING:
    from agentcli.agent.run_limits import Limits
    from agentcli.llm.roles import Roles
    from agentcli.sessions.session import Session

ROLE = "editor"


def ask_editor(
    models: Roles, session: Session, limits: Limits, most_tokens: int
) -> Callable[[str], str]:
    """Return a function that sends one prompt to the editor and returns its complete text; the cost
    is recorded. Raises LLMError."""

    def ask(prompt: str) -> str:
        session.notify(Status("thinking", "merging an edit"))
        reply, cost = ask_role(models, session, limits, ROLE, prompt, most_tokens)
        session.emit(TextMergedObservation(llm_metrics=cost))
        if reply.finish_reason == "length":
            raise LLMError(LLMErrorKind.BAD_RESPONSE, "its answer was cut off")
        return reply.text

    return ask
