"""Slash commands: what they are, and which one is meant by a line."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.shell_command import run_shell
from agentcli.errors import UsageError
from agentcli.extensions import ExtensionPoint
from agentcli.ui.prompt.control import Completion

Complete = Callable[[Conversation, str], Sequence[Completion]]


@dataclass(frozen=True)
class SlashCommand:
    """`run` gets what follows the name; `takes` says what that is, `complete` what fits there. One
    that runs `at_once` need not wait for the end of a turn: it only shows something, from the
    prompt's thread. Its help is the docstring of its file."""

    run: Callable[[Conversation, str], None]
    takes: str = ""
    complete: Complete | None = None
    at_once: bool = False

    @property
    def help(self) -> str:
        return inspect.getdoc(sys.modules[self.run.__module__]) or ""


COMMANDS = ExtensionPoint(
    "agentcli.cli.slash", "SLASH_COMMAND", "agentcli.slash_commands", SlashCommand
)


@cache
def slash_commands() -> Mapping[str, SlashCommand]:
    """By the name that a person types."""
    return {name.rstrip("_"): command for name, command in COMMANDS.all().items()}


def run_slash(conversation: Conversation, line: str) -> None:
    """Raises UsageError for a command that there is not; the line is not sent to the model."""
    name, _, argument = line[1:].strip().partition(" ")
    command = slash_commands().get(name)
    if command is None:
        close = get_close_matches(name, slash_commands(), 1)
        hint = f"did you mean /{close[0]}?" if close else "see /help"
        raise UsageError(f"there is no command /{name}", hint=hint)
    command.run(conversation, argument.strip())


def run_at_once(conversation: Conversation, line: str) -> bool:
    """Run a command that need not wait; False for all others."""
    command = slash_commands().get(line[1:].strip().partition(" ")[0])
    if command is None or not command.at_once:
        return False
    conversation.show_said(line)
    run_slash(conversation, line)
    return True


def carry_out(conversation: Conversation, line: str) -> None:
    """What the person typed with `/` or `!`. Raises AgentError."""
    if line.startswith("!"):
        run_shell(conversation, line)
    else:
        run_slash(conversation, line)


def first_line(text: str) -> str:
    return text.partition("\n")[0]
