"""Give this session a name, by which you can find and continue it."""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.errors import UsageError
from agentcli.events import Source
from agentcli.events.actions import RenameAction
from agentcli.sessions.manage.naming import checked_name, require_free
from agentcli.ui.style import Span


def rename(conversation: Conversation, argument: str) -> None:
    if not argument:
        raise UsageError("which name?", hint="/rename the parser")
    name, home = checked_name(argument), conversation.builder.home
    if conversation.opened is None:
        require_free(home, name)
        conversation.name = name
        conversation.print([Span(f"the session will be named {name}", "dim")])
    else:
        session = conversation.open_session().session
        require_free(home, name, session.folder)
        session.emit(RenameAction(name=name, source=Source.USER))


SLASH_COMMAND = SlashCommand(rename, takes="NAME")
