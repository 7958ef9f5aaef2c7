"""Whether a run could not be finished because nobody was there to approve an action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.agent.ending import Ending
from agentcli.events import Event
from agentcli.events.actions import MemoryAction, is_user_message
from agentcli.events.live import newest_first
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
