"""Show the agent's newest list of tasks."""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.events.actions import TaskTrackingAction
from agentcli.events.conversation import newest
from agentcli.ui.calls import call_lines
from agentcli.ui.text import Span


def todo(conversation: Conversation, argument: str) -> None:
    tracked = newest(conversation.session.events, TaskTrackingAction)
    if tracked is None or not tracked.task_list:
        conversation.tell("the agent has no task list here")
        return
    conversation.print([Span(tracked.message, "dim")], *call_lines(tracked))


SLASH_COMMAND = SlashCommand(todo, at_once=True)
