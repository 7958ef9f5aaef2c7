"""What this session has used: tokens and USD.

By model and by the part it played: the work itself, summaries, ratings of risk.
"""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.session_costs import table
from agentcli.cli.slash_command import SlashCommand
from agentcli.ui.style import Span


def cost(conversation: Conversation, argument: str) -> None:
    conversation.print(*([Span(row)] for row in table(conversation.session.state)))


SLASH_COMMAND = SlashCommand(cost, at_once=True)
