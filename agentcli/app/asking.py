"""Questions of the model to the person."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.agent.agent import Approver
from agentcli.interrupts import off_the_clock
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def asking(approver: Approver, session: Session) -> Callable[[str, Sequence[str]], str | None]:
    """Asks the person. While that goes on the session waits for them: cut off, the question stays
    open and is asked again."""

    def ask(question: str, options: Sequence[str]) -> str | None:
        session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
        with off_the_clock():
            answer = approver.answer(question, options)
        session.change_state(AgentState.RUNNING)
        return answer

    return ask
