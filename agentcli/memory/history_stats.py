"""What must be known of a session's history, gathered by looking at each event only once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentcli.events import Event
from agentcli.events.actions import (
    CondensationAction,
    CondensationRequestAction,
    TaskTrackingAction,
    is_user_message,
)
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.memory.view import event_bytes, is_never_dropped

TOKENS_BEFORE = "tokens_before"
TOKENS_AFTER = "tokens_after"
"""Keys in the numbers of a condensation: estimates for the request before and after it."""
_WORTH_IT = 0.9
_ANSWERED = frozenset({"finished", "awaiting_user_input"})


@dataclass
class HistoryStats:
    """`steps`: replies so far. `poor_passes`: condensations in a row, since the user last spoke,
    that saved less than 10 %; `tokens_left`: what the newest condensation left. `request`: the
    focus of a condensation that the model asked for and that is still to be made. `dealt_with`: the
    newest message of the user that a finished turn has answered."""

    steps: int = 0
    todo: TaskTrackingAction | None = None
    failed_at: datetime | None = None
    now: datetime | None = None
    dealt_with: int = -1
    poor_passes: int = 0
    tokens_left: float = 0.0
    request: str | None = None
    newest_message: int = -1
    staying_bytes: int = 0
    """Size of what stays in sight whatever else goes."""

    def feed(self, event: Event) -> None:
        self.now = event.timestamp
        if is_never_dropped(event) and getattr(event, "recall_type", "") != "event":
            self.staying_bytes += event_bytes(event)
        if event.reply is not None and event.reply.index == 0:
            self.steps += 1
        if isinstance(event, TaskTrackingAction) and event.command == "plan":
            self.todo = event
        elif isinstance(event, CondensationRequestAction):
            self.request = event.focus
        elif isinstance(event, CondensationAction):
            self._condensed(event)
        elif is_user_message(event):
            self.newest_message = event.id
            self.poor_passes = 0
        elif isinstance(event, AgentStateChangedObservation) and event.agent_state in _ANSWERED:
            self.dealt_with = self.newest_message

    def _condensed(self, event: CondensationAction) -> None:
        self.request = None
        if event.summariser_error:
            self.failed_at = event.timestamp
        self.poor_passes = self.poor_passes + 1 if is_poor(event) else 0
        self.tokens_left = event.numbers.get(TOKENS_AFTER, 0.0)


def is_poor(event: CondensationAction) -> bool:
    """Whether a condensation saved less than 10 %, according to its numbers."""
    before, after = (event.numbers.get(name, 0.0) for name in (TOKENS_BEFORE, TOKENS_AFTER))
    return before > 0 and after > before * _WORTH_IT
