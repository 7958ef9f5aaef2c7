"""What can be typed here, and what the keys do."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import (
    SlashCommand,
    first_line,
    help_lines,
    read_own_commands,
    slash_commands,
)
from agentcli.errors import UsageError
from agentcli.ui.sanitize import printable
from agentcli.ui.style import Line, Span

_KEYS = (
    ("Enter", "send; while it works: heard at its next step"),
    ("Tab", "while it works: heard after the turn"),
    ("Alt-Enter, \\ Enter", "a new line"),
    ("Esc", "interrupt; twice on an empty line: go back (/rewind)"),
    ("Ctrl-C", "clear the line, else interrupt, else leave"),
    ("Ctrl-D", "leave"),
    ("↑", "earlier lines; while messages wait: take the newest back to edit"),
    ("Ctrl-R", "search earlier lines"),
    ("Ctrl-G", "write in $EDITOR"),
    ("Ctrl-O", "all that was done, in full"),
    ("Ctrl-B", "the running command goes on in the background"),
    ("Ctrl-V", "the image in the clipboard"),
    ("Shift-Tab", "what runs unasked: ask, auto-edit, plan"),
    ("@", "a file or a session; !cmd runs a command, !!cmd unseen by the model"),
)


def help_(conversation: Conversation, argument: str) -> None:
    if argument:
        _one(conversation, argument.removeprefix("/"))
        return
    commands = slash_commands()
    names = {f"/{name} {each.takes}".rstrip(): each for name, each in commands.items()}
    column = max(map(len, names)) + 2
    lines: list[Line] = [
        [Span(f"{name:<{column}}", "bold"), Span(first_line(each.help), "dim")]
        for name, each in names.items()
    ]
    keys: list[Line] = [[Span(f"{key:<20}", "bold"), Span(does, "dim")] for key, does in _KEYS]
    conversation.print(*lines, *_own(conversation), [], *keys)


def _own(conversation: Conversation) -> Iterator[Line]:
    """What is called by name but not ours, and what was left out."""
    own = read_own_commands(conversation)
    lines = {name: line for name, line in help_lines(own).items() if name not in slash_commands()}
    if lines:
        yield []
        column = max(map(len, lines)) + 3
        for name, line in lines.items():
            yield [Span(f"/{name:<{column - 1}}", "bold"), Span(printable(line), "dim")]
    for notice in own.notices:
        yield [Span(printable(notice), "yellow")]


def _one(conversation: Conversation, name: str) -> None:
    command = slash_commands().get(name)
    if command is None:
        _one_of_own(conversation, name)
        return
    head = f"/{name} {command.takes}".rstrip()
    conversation.print([Span(head, "bold")], *([Span(row)] for row in command.help.split("\n")))


def _one_of_own(conversation: Conversation, name: str) -> None:
    """Raises UsageError when there is no such command."""
    own = read_own_commands(conversation)
    command, skill = own.commands.get(name), own.skill(name)
    if command is not None:
        head = f"/{name} {command.takes}".rstrip()
        said = [f"It says what is in {command.shown}:", *command.body.split("\n")]
    elif skill is not None:
        head = " ".join([f"/{skill.name}", *(f"{name}=…" for name in skill.inputs)])
        said = [skill.description, f"A skill: {skill.shown}"]
    else:
        raise UsageError(f"there is no command /{name}", hint="see /help")
    conversation.print(
        [Span(printable(head), "bold")], *([Span(printable(row))] for row in said if row)
    )


SLASH_COMMAND = SlashCommand(help_, takes="[COMMAND]", at_once=True)
