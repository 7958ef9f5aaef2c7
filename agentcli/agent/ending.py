"""How a turn ends."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.sessions.state import AgentState

LIMIT_EXIT_CODE = 6


@dataclass(frozen=True)
class Ending:
    """How a turn ends: the state it leaves, a stable word for the reason, what to tell the user,
    and what they can do next."""

    agent_state: AgentState
    reason: str
    content: str = ""
    exit_code: int = 0
    hint: str = ""
    answer: str | None = None
    """What the user gets instead of the agent's last words; None: those words."""

    @property
    def at_limit(self) -> bool:
        return self.exit_code == LIMIT_EXIT_CODE

    @property
    def is_over(self) -> bool:
        """Whether the agent finished its work, so that its last words are its answer."""
        return self.agent_state in (AgentState.FINISHED, AgentState.AWAITING_USER_INPUT)


@dataclass(frozen=True)
class TurnResult:
    """The outcome of a turn. `answer` is what the agent last said to the user: its result, or at a
    limit its summary; empty if it was stopped in the middle of its work."""

    ending: Ending
    answer: str
    session_id: str = ""
    """Empty if there is no session to continue."""

    @property
    def exit_code(self) -> int:
        return self.ending.exit_code
