"""Show what this session has used: tokens and USD.

The rows are by model and role (the main work, summaries, ratings of risk), then by child.
"""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.costs import children_of, table
from agentcli.cli.slash_command import SlashCommand


def cost(conversation: Conversation, argument: str) -> None:
    session = conversation.session
    children = list(children_of(session.folder, session.state))
    conversation.tell(*table(session.state, children), style="")


SLASH_COMMAND = SlashCommand(cost, at_once=True)
