"""Slash commands that are commands of a shell, too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, update_wrapper
from typing import Any

from agentcli.cli.command import Command
from agentcli.cli.commands.agents import AGENTS
from agentcli.cli.commands.compact import COMPACT
from agentcli.cli.commands.context import CONTEXT
from agentcli.cli.commands.diff import DIFF
from agentcli.cli.commands.mcp import SERVERS
from agentcli.cli.commands.sessions import COST
from agentcli.cli.commands.undo import FORCE, UNDO
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.ui.prompt.control import Completion


def _complete_undo(conversation: Conversation, typed: str) -> Sequence[Completion]:
    last = typed.rpartition(" ")[2]
    before = typed.removesuffix(last)
    if last.startswith("-") and FORCE.startswith(last):
        return [Completion(f"{before}{FORCE} ", "also where somebody else changed the file since")]
    return ()


def _shared(command: Command, *, slow: bool = False, **more: Any) -> SlashCommand:
    run = partial(command.in_conversation, slow=slow)
    return SlashCommand(update_wrapper(run, command.run), command.takes, **more)


SLASH_COMMANDS = {
    "agents": _shared(AGENTS, at_once=True),
    "compact": _shared(COMPACT, slow=True),
    "context": _shared(CONTEXT, at_once=True),
    "cost": _shared(COST, at_once=True),
    "diff": _shared(DIFF, at_once=True),
    "mcp": _shared(SERVERS, at_once=True),
    "undo": _shared(UNDO, complete=_complete_undo),
}
