"""Show what this session has used: tokens and USD.

The rows are by model and role (the main work, summaries, ratings of risk), then by child.
"""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.costs import children_of, table
from agentcli.cli.slash_command import SlashCommand
from agentcli.ui.style import Span


def cost(conversation: Conversation, argument: str) -> None:
    session = conversation.session
    children = list(children_of(session.folder, session.state))
    conversation.print(*([Span(row)] for row in table(session.state, children)))


SLASH_COMMAND = SlashCommand(cost, at_once=True)
