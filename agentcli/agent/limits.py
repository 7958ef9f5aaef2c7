"""When a turn must end whatever the model wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentcli.agent.agent import Ending
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.sessions.state import AgentState, State

MAX_BUDGET = "max_budget"


def _known_cost(state: State) -> float:
    return state.cost_usd or 0.0


@dataclass(frozen=True)
class Limits:
    """`max_turns` counts model replies since the last user message; `max_budget_usd` is for the
    whole session (None: no limit), of which `spent_usd` says what it cost so far; the others count
    faults in a row: replies with calls that could not be understood, replies that were empty or cut
    off."""

    max_turns: int = 100
    max_bad_calls: int = 5
    max_bad_replies: int = 3
    max_budget_usd: float | None = None
    spent_usd: Callable[[State], float] = _known_cost

    def reached(self, state: State) -> Ending | None:
        if state.bad_calls >= self.max_bad_calls:
            return Ending(
                AgentState.ERROR,
                "bad_calls",
                f"{state.bad_calls} replies in a row had calls that could not be understood; "
                f"the last: {state.last_error}",
                exit_code=1,
            )
        if state.bad_replies >= self.max_bad_replies:
            return Ending(
                AgentState.ERROR,
                "bad_replies",
                f"the model gave {state.bad_replies} unusable replies in a row; "
                f"the last: {state.last_error}",
                exit_code=4,
            )
        if state.local_iteration >= self.max_turns:
            return Ending(
                AgentState.PAUSED,
                "max_turns",
                f"the limit of {self.max_turns} model turns is reached",
                exit_code=6,
            )
        return None

    def left_usd(self, state: State) -> float | None:
        """What the session may still cost; None without a limit."""
        if self.max_budget_usd is None:
            return None
        return max(0.0, self.max_budget_usd - self.spent_usd(state) - state.abandoned_usd)

    def failed(self, error: LLMError, state: State) -> Ending:
        """How a turn ends when no reply is to be had; one that is too dear is no failure."""
        if error.kind is not LLMErrorKind.BUDGET or self.max_budget_usd is None:
            return Ending(AgentState.ERROR, error.kind, error.message, error.exit_code, error.hint)
        lost = state.abandoned_usd
        perhaps = f", and up to ${lost:.4f} on replies that broke off" if lost else ""
        return Ending(
            AgentState.PAUSED,
            MAX_BUDGET,
            f"${self.spent_usd(state):.4f} of the budget of ${self.max_budget_usd:.4g} is spent"
            f"{perhaps}; {error.message}",
            exit_code=6,
            hint=error.hint,
        )
