"""Summarise the older work for the model, to make room in its window.

The newest two steps stay as they are. Nothing is deleted: the session still shows everything, and
the model can recall it. The text after the name says what the summary must keep:

/compact the names of the failing tests
"""

from __future__ import annotations

from agentcli.app.compact import compact_open
from agentcli.cli.commands.compact import savings_text
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand


def compact(conversation: Conversation, argument: str) -> None:
    _ = conversation.session
    with conversation.working():
        done = compact_open(conversation.open_session(), argument)
    conversation.tell(savings_text(done))


SLASH_COMMAND = SlashCommand(compact, takes="[WHAT TO KEEP]")
