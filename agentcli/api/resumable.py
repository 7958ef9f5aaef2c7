"""Opens the session of a task wherever an earlier process left it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.agent.replies import ending_of_reply
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.open_session import OpenSession
from agentcli.app.resume import discard_unfinished
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.conversation import newest
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.sessions.session import Session as StoredSession
from agentcli.sessions.session import Subscriber


def open_for_task(
    builder: AgentBuilder,
    folder: Path,
    task: str,
    is_over: Callable[[AgentStateChangedObservation], bool],
    subscribers: Callable[[StoredSession], Sequence[Subscriber]],
) -> OpenSession | None:
    """Open the session in `folder`, which need not exist, with its task. Return None if it ended
    before, as `is_over` says of its newest change of state. Raises as AgentBuilder does. Nobody
    typed the task, so files in /tmp that it names are not shown to the session."""
    events = discard_unfinished(folder)
    has_task = any(isinstance(e, MessageAction) and e.source is Source.USER for e in events)
    if has_task:
        last = last_state_change(events)
        if last is not None and is_over(last):
            return None
        # One that was stopped after its last reply has nothing left to do but to record its end.
        is_answered = ending_of_reply(events, interactive=False) is not None
        return builder.reopen(folder, subscribers, has_message=is_answered)
    opened = (
        builder.reopen(folder, subscribers, has_message=True)
        if events
        else builder.create(subscribers, folder=folder)
    )
    with opened.closed_on_failure():
        opened.say(task)
    return opened


def last_state_change(events: Sequence[Event]) -> AgentStateChangedObservation | None:
    return newest(events, AgentStateChangedObservation)
