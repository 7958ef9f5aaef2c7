"""Slash commands: what they are, and how a line is matched to one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache

from agentcli.app.user_commands import OwnCommands, own_commands, prompt_text, prompts
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.user_programs import run_shell
from agentcli.errors import AgentError, UsageError
from agentcli.extensions import ExtensionPoint
from agentcli.mcp.values import one_line
from agentcli.ui.prompt.control import Completion, Submission

Complete = Callable[[Conversation, str], Sequence[Completion]]


@dataclass(frozen=True)
class SlashCommand:
    """A slash command. `run` gets the text after the name; `takes` describes that text, and
    `complete` completes it. A command that runs `at_once` does not wait for the end of a turn: it
    only shows something, from the prompt's thread. Its help is the docstring of `run`, or else of
    its file."""

    run: Callable[[Conversation, str], None]
    takes: str = ""
    complete: Complete | None = None
    at_once: bool = False

    @property
    def help(self) -> str:
        """The help, with the examples for conversations."""
        text = inspect.getdoc(self.run) or inspect.getdoc(sys.modules[self.run.__module__]) or ""
        about, _, examples = text.partition("\n\nExamples:\n")
        ours = [line.strip() for line in examples.split("\n") if line.startswith("  /")]
        return "\n\n".join([about, *ours])


_POINT = ExtensionPoint[SlashCommand](
    "agentcli.cli.slash", "SLASH_COMMANDS", "agentcli.slash_commands", SlashCommand, tables=True
)


@cache
def slash_commands() -> Mapping[str, SlashCommand]:
    """Return all slash commands by the name that a user types. Each file of ours has several."""
    found = _POINT.all()
    return {name: found[name] for name in sorted(found)}


def run_slash(conversation: Conversation, given: Submission) -> None:
    """Run a built-in command, a prompt of a tool server, a command of the user's or of the
    project, or a skill. Raises UsageError for an unknown name; the model never sees the line."""
    name, argument = _parts(given.text)
    command = slash_commands().get(name)
    if command is not None:
        if argument and not command.takes:
            raise UsageError(f"/{name} takes nothing after its name", hint=f"see /help {name}")
        command.run(conversation, argument)
        return
    if name.startswith("mcp__") and (servers := conversation.open_session().servers):
        prompted = prompt_text(servers, name, argument)
        if prompted is not None:
            conversation.say(replace(given, text=prompted), typed=given.text)
            return
    own = read_own_commands(conversation)
    if name in own.commands:
        text = own.commands[name].text(argument)
        conversation.say(replace(given, text=text), typed=given.text)
    elif own.skill(name) is not None:
        # The session recognises skills itself.
        conversation.say(given, typed=given.text)
    else:
        raise unknown_command(name, own)


def unknown_command(name: str, own: OwnCommands) -> UsageError:
    """Return the error for a name that is no command."""
    if name in own.untrusted:
        told = f"/{name} belongs to this folder, which is not trusted"
        return UsageError(told, hint="agent trust shows what it brings along")
    meant = _closest(name, [*slash_commands(), *own.names()])
    hint = f"did you mean /{meant}?" if meant else "see /help"
    return UsageError(f"there is no command /{name}", hint=hint)


def _closest(typed: str, names: Iterable[str]) -> str:
    """Return the name that was begun or mistyped; "" if none is similar. People hardly ever get the
    first letter wrong, and other words resemble too many names."""
    alike = [name for name in names if typed and name[:1] == typed[0].lower()]
    begun = [name for name in alike if name.startswith(typed)]
    return next(iter(begun or get_close_matches(typed, alike, 1)), "")


def read_own_commands(conversation: Conversation) -> OwnCommands:
    """Read the commands as they are now, also for completion from then on. Raises ConfigError."""
    builder = conversation.builder
    conversation.own_commands = own_commands(
        builder.environ, builder.workspace, builder.settings.knowledge, slash_commands()
    )
    return conversation.own_commands


def run_at_once(conversation: Conversation, line: str) -> bool:
    """Run a command that need not wait, or report an unknown one; False for all others."""
    name = _parts(line)[0]
    command = slash_commands().get(name)
    try:
        if line.startswith("!") or (command is None and _is_own(conversation, name)):
            return False
        if command is not None and not command.at_once:
            return False
        conversation.show_said(line)
        run_slash(conversation, Submission(line))
    except (AgentError, OSError) as error:
        conversation.show_error(error)
    return True


def _is_own(conversation: Conversation, name: str) -> bool:
    own = read_own_commands(conversation)
    return name in own.commands or own.skill(name) is not None


def _parts(line: str) -> tuple[str, str]:
    """Return the name and the text after it."""
    name, *rest = line[1:].split(maxsplit=1) or [""]
    return name, rest[0].strip() if rest else ""


def prompt_lines(conversation: Conversation) -> dict[str, str]:
    """Return a help line for each prompt of the tool servers, once these have started."""
    servers = conversation.opened.servers if conversation.opened is not None else None
    found = prompts(servers) if servers is not None else ()
    return {name: f"{server}: {one_line(each.description)}" for name, server, each in found}


def help_lines(own: OwnCommands) -> dict[str, str]:
    """Return a help line for each command, by the name that a user types: built-in ones, the
    user's and the project's, then skills."""
    lines = {name: first_line(each.help) for name, each in slash_commands().items()}
    lines |= {name: f"{each.whose}: {each.description}" for name, each in own.commands.items()}
    for skill in own.callable_skills():
        lines.setdefault(skill.name, f"skill: {skill.description}".rstrip(": "))
    return lines


def carry_out(conversation: Conversation, given: Submission) -> None:
    """Carry out what the user typed with `/` or `!`. Raises AgentError."""
    if given.text.startswith("!"):
        run_shell(conversation, given.text)
    else:
        run_slash(conversation, given)


def beginning(typed: str, words: Mapping[str, str]) -> list[Completion]:
    """Return completions for those of `words` (with their help) that begin with what is typed."""
    return [Completion(f"{word} ", told) for word, told in words.items() if word.startswith(typed)]


def first_line(text: str) -> str:
    return text.partition("\n")[0]
