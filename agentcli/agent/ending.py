"""How a turn ends: by the model, at a limit, or for want of an approval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events import Event
from agentcli.events.actions import MemoryAction, is_user_message
from agentcli.events.conversation import newest_first
from agentcli.events.observations import (
    CmdOutputObservation,
    DecisionObservation,
    DelegateObservation,
    FileEditObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
    ToolResultObservation,
)
from agentcli.interrupts import Countdown
from agentcli.sessions.state import AgentState, State

if TYPE_CHECKING:
    from agentcli.settings import AgentSettings


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


MAX_TURNS, MAX_BUDGET, MAX_TIME = "max_turns", "max_budget", "max_time"
SUMMARY_TOKENS = 1_024
"""Output tokens that a budget reserves for the summary. If more is left, it may be longer."""
_LONGEST_RESERVE_S = 30.0
_RESERVED_SHARE = 0.2


@dataclass(frozen=True)
class Limits:
    """The limits of one turn. `max_budget_usd` is for the whole session (None: no limit);
    `spent_usd` returns its cost so far. Time is wall clock, on the main thread without the time
    that a user takes to answer. If a summary is wanted and more than one step is allowed, the last
    step and some money and time are reserved for it."""

    settings: AgentSettings
    max_budget_usd: float | None = None
    spent_usd: Callable[[State], float] = lambda state: state.cost_usd or 0.0

    @property
    def summary_tokens(self) -> int:
        return SUMMARY_TOKENS if self.settings.summary_at_limit else 0

    def room_for_summary(self, state: State, countdown: Countdown | None) -> bool:
        """Whether the limits on turns and time allow one more call; the call checks the money."""
        in_time = countdown is None or countdown.left_s > 0
        in_turns = state.local_iteration < self.settings.max_turns
        return self.settings.summary_at_limit and in_time and in_turns

    def countdown(self) -> Countdown | None:
        return Countdown(self.settings.max_time_s) if self.settings.max_time_s else None

    def reserve_s(self) -> float:
        if not self.settings.summary_at_limit:
            return 0.0
        return min(_LONGEST_RESERVE_S, _RESERVED_SHARE * self.settings.max_time_s)

    def ending_at_limit(self, state: State, countdown: Countdown | None = None) -> Ending | None:
        """Return how the turn ends before the next model call, if it does."""
        if state.bad_calls >= self.settings.max_bad_calls:
            return Ending(
                AgentState.ERROR,
                "bad_calls",
                f"{state.bad_calls} replies in a row had invalid tool calls; "
                f"the last: {state.last_error}",
                exit_code=1,
            )
        if state.bad_replies >= self.settings.max_bad_replies:
            return Ending(
                AgentState.ERROR,
                "bad_replies",
                f"the model gave {state.bad_replies} unusable replies in a row; "
                f"the last: {state.last_error}",
                exit_code=4,
            )
        max_turns = self.settings.max_turns
        reserved = int(self.settings.summary_at_limit and max_turns > 1)
        if state.local_iteration >= max_turns - reserved:
            return Ending(
                AgentState.PAUSED,
                MAX_TURNS,
                f"the limit of {max_turns} model replies is reached",
                exit_code=LIMIT_EXIT_CODE,
                hint=f"to go on: agent resume {state.session_id} --max-turns {2 * max_turns}",
            )
        if countdown is not None and countdown.left_s <= self.reserve_s():
            return self.out_of_time(state)
        return None

    def out_of_time(self, state: State) -> Ending:
        return Ending(
            AgentState.PAUSED,
            MAX_TIME,
            f"the time limit of {self.settings.max_time_s:g} s is reached",
            exit_code=LIMIT_EXIT_CODE,
            hint=f"to go on with the same limit: agent resume {state.session_id}",
        )

    def left_usd(self, state: State) -> float | None:
        """Return what the session may still cost; None without a limit."""
        if self.max_budget_usd is None:
            return None
        return max(0.0, self.max_budget_usd - self.spent_usd(state) - state.abandoned_usd)

    def ending_after_failure(self, error: LLMError, state: State) -> Ending:
        """Return the ending of a turn whose model call failed. Running out of budget pauses the
        session and is no error."""
        if error.kind is not LLMErrorKind.BUDGET or self.max_budget_usd is None:
            return Ending(AgentState.ERROR, error.kind, error.message, error.exit_code, error.hint)
        lost = state.abandoned_usd
        maybe_lost = f", and up to ${lost:.4f} on replies that broke off" if lost else ""
        return Ending(
            AgentState.PAUSED,
            MAX_BUDGET,
            f"${self.spent_usd(state):.4f} of the budget of ${self.max_budget_usd:.4g} is spent"
            f"{maybe_lost}; {error.message}",
            exit_code=LIMIT_EXIT_CODE,
            hint=error.hint,
        )


_CHANGES = (
    CmdOutputObservation,
    IPythonRunCellObservation,
    MCPObservation,
    FileEditObservation,
    FileWriteObservation,
    ToolResultObservation,
)
"""Results of actions that may change something; reading files does not."""

NEEDS_APPROVAL = "needs_approval"
EXIT_CODE = 5


def explain_denied_approval(events: Sequence[Event], ending: Ending) -> Ending:
    """Return `ending`, or one that says which approval was missing: if the agent gave up after such
    a refusal, or if the last thing it tried was refused and after that it only read and talked."""
    refused = _refusal(events, anywhere=ending.exit_code != 0)
    if refused is None:
        return ending
    return replace(
        ending,
        reason=NEEDS_APPROVAL,
        content=f"not finished, because approval was needed: {refused}",
        exit_code=EXIT_CODE,
        hint='at a terminal you are asked: agent resume --last "try again"; or use --allow RULE',
    )


def _refusal(events: Sequence[Event], *, anywhere: bool) -> str | None:
    """Return the reason of the newest such refusal of this turn, also in a child; unless
    `anywhere`, only if nothing was done after it."""
    for event in newest_first(events):
        if isinstance(event, DecisionObservation):
            # A refused note does not stop a task.
            if event.unattended and not isinstance(_decided_action(events, event), MemoryAction):
                return event.reason
        elif isinstance(event, DelegateObservation) and event.needs_approval:
            return event.needs_approval
        elif is_user_message(event) or (isinstance(event, _CHANGES) and not anywhere):
            return None
    return None


def _decided_action(events: Sequence[Event], decision: DecisionObservation) -> Event | None:
    return events[decision.cause] if decision.cause is not None else None
