"""Show the agent's newest list of tasks."""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.events.actions import TaskTrackingAction
from agentcli.events.live import newest_first
from agentcli.ui.calls import call_lines
from agentcli.ui.style import Span


def todo(conversation: Conversation, argument: str) -> None:
    events = newest_first(conversation.session.events)
    newest = next((event for event in events if isinstance(event, TaskTrackingAction)), None)
    if newest is None or not newest.task_list:
        conversation.print([Span("the agent has no task list here", "dim")])
        return
    conversation.print([Span(newest.message, "dim")], *call_lines(newest))


SLASH_COMMAND = SlashCommand(todo, at_once=True)
