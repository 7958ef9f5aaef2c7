"""Give this session a name, by which you can find and continue it."""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.errors import UsageError
from agentcli.events import Source
from agentcli.events.actions import RenameAction
from agentcli.sessions.finder import free_name


def rename(conversation: Conversation, argument: str) -> None:
    if not argument:
        raise UsageError("which name?", hint="/rename the parser")
    home = conversation.builder.home
    if conversation.opened is None:
        conversation.name = free_name(home, argument)
        conversation.tell(f"the session will be named {conversation.name}")
    else:
        session = conversation.open_session().session
        name = free_name(home, argument, session.folder)
        session.emit(RenameAction(name=name, source=Source.USER))


SLASH_COMMAND = SlashCommand(rename, takes="NAME")
