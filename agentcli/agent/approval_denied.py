"""Whether a run could not be finished because nobody was there to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.agent.agent import Ending
from agentcli.events import Event, Source
from agentcli.events.actions import MemoryAction, MessageAction
from agentcli.events.live import newest_first
from agentcli.events.observations import (
    CmdOutputObservation,
    DecisionObservation,
    FileEditObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
    ToolResultObservation,
)

_WORK = (
    CmdOutputObservation,
    IPythonRunCellObservation,
    FileEditObservation,
    FileWriteObservation,
    MCPObservation,
    ToolResultObservation,
)
"""What comes of doing something; looking at files is not that."""

NEEDS_APPROVAL = "needs_approval"
EXIT_CODE = 5


def for_want_of_approval(events: Sequence[Event], ending: Ending) -> Ending:
    """`ending`, or one that says what was refused: when the agent gave up after a refusal for want
    of a person, or when the last thing it tried to do was refused so and it only looked around and
    talked after that."""
    refused = _refusal(events, anywhere=ending.exit_code != 0)
    if refused is None:
        return ending
    return replace(
        ending,
        reason=NEEDS_APPROVAL,
        content=f"not finished, as it needed approval: {refused.reason}",
        exit_code=EXIT_CODE,
        hint='at a terminal, agent resume --last "try again" asks you; or allow it: --allow RULE',
    )


def _refusal(events: Sequence[Event], *, anywhere: bool) -> DecisionObservation | None:
    """The newest such refusal of this turn; unless `anywhere`, only if nothing was done after."""
    for event in newest_first(events):
        if isinstance(event, DecisionObservation):
            # No task ever waits for a note.
            if event.unattended and not isinstance(_judged(events, event), MemoryAction):
                return event
        elif _is_users(event) or (isinstance(event, _WORK) and not anywhere):
            return None
    return None


def _judged(events: Sequence[Event], decision: DecisionObservation) -> Event | None:
    return events[decision.cause] if decision.cause is not None else None


def _is_users(event: Event) -> bool:
    return isinstance(event, MessageAction) and event.source is Source.USER
