"""Show what fills the model's window.

Each character of the picture stands for a share of the window, # for what is left free for the
reply. The biggest parts are listed below it with their events. /compact makes room.
"""

from __future__ import annotations

from agentcli.cli.commands.context import picture, use_of
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand


def context(conversation: Conversation, argument: str) -> None:
    session = conversation.session
    use = use_of(list(session.events), session.state.model, conversation.builder)
    conversation.print(*picture(session.state.model, use, conversation.width))


SLASH_COMMAND = SlashCommand(context, at_once=True)
