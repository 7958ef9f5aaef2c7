"""Begin a new session with the next message.

/new fix the other test sends that message at once. The session before stays as it is; /resume
returns to it.
"""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.ui.prompt.control import Submission


def new(conversation: Conversation, argument: str) -> None:
    if conversation.opened is not None:
        before = conversation.session.id
        conversation.tell(f"to go on with the one before: /resume {before}")
    conversation.begin_anew()
    if argument:
        conversation.say(Submission(argument))
    else:
        conversation.tell("what you say next begins a new session")


SLASH_COMMAND = SlashCommand(new, takes="[MESSAGE]")
