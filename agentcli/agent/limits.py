"""When a turn must end whatever the model wants."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.agent.agent import Ending
from agentcli.sessions.state import AgentState, State


@dataclass(frozen=True)
class Limits:
    """`max_turns` counts model replies since the last user message; the others count faults in a
    row: replies with calls that could not be understood, replies that were empty or cut off."""

    max_turns: int = 100
    max_bad_calls: int = 5
    max_bad_replies: int = 3

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
