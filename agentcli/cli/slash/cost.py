"""Show what this session has used: tokens and USD.

The rows are by model and role (the main work, summaries, ratings of risk), then by child.
"""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.rows import costs, table
from agentcli.cli.slash_command import SlashCommand


def cost(conversation: Conversation, argument: str) -> None:
    session = conversation.session
    conversation.tell(*table(costs(session.folder, session.state)), style="")


SLASH_COMMAND = SlashCommand(cost, at_once=True)
