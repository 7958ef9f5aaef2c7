"""How a turn ends."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.sessions.state import AgentState

LIMIT_EXIT_CODE = 6


@dataclass(frozen=True)
class Ending:
    """The state that a turn leaves, a stable word for the reason, what to tell the person, and what
    they can do next."""

    agent_state: AgentState
    reason: str
    content: str = ""
    exit_code: int = 0
    hint: str = ""
    answer: str | None = None
    """What the person is given in place of the agent's last words; None: those."""

    @property
    def at_limit(self) -> bool:
        return self.exit_code == LIMIT_EXIT_CODE

    @property
    def is_over(self) -> bool:
        """Whether the agent came to the end of its work, so that its last words are its answer."""
        return self.agent_state in (AgentState.FINISHED, AgentState.AWAITING_USER_INPUT)


@dataclass(frozen=True)
class TurnResult:
    """The outcome of a turn. `answer` is what the agent last said to the person: its result, or at
    a limit its summary; empty when it was stopped in the middle of its work."""

    ending: Ending
    answer: str
    session_id: str = ""
    """Empty where there is no session to go on with."""

    @property
    def exit_code(self) -> int:
        return self.ending.exit_code
