"""Leave; the session can be continued later."""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand


def quit_(conversation: Conversation, argument: str) -> None:
    conversation.control.leave()


SLASH_COMMAND = SlashCommand(quit_)
