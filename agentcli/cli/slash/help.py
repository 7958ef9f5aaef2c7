"""Show what can be typed here, and what the keys do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import (
    SlashCommand,
    help_lines,
    read_own_commands,
    slash_commands,
    unknown_command,
)
from agentcli.ui.text import Line, Span, printable

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
    own = read_own_commands(conversation)
    lines = help_lines(own)
    of_ours = {f"/{name}": line for name, line in lines.items() if name in slash_commands()}
    others = {f"/{name}": line for name, line in lines.items() if name not in slash_commands()}
    conversation.print(
        *_table(of_ours, conversation.width),
        *([[], *_table(others, conversation.width)] if others else []),
        *([Span(printable(notice), "yellow")] for notice in own.notices),
        [],
        *_table(dict(_KEYS), conversation.width),
    )


def _table(entries: Mapping[str, str], width: int) -> Iterator[Line]:
    """Yield rows of names with their texts beside them, broken at words."""
    column = max(map(len, entries)) + 2
    for name, text in entries.items():
        rows = textwrap.wrap(printable(text, multiline=False), max(width - column - 1, 20)) or [""]
        for number, row in enumerate(rows):
            head = "" if number else printable(name, multiline=False)
            yield [Span(f" {head:<{column}}", "bold"), Span(row, "dim")]


def _one(conversation: Conversation, name: str) -> None:
    command = slash_commands().get(name)
    if command is None:
        _one_of_own(conversation, name)
        return
    head = f"/{name} {command.takes}".rstrip()
    conversation.print([Span(head, "bold")], *([Span(row)] for row in _paragraphs(command.help)))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield each paragraph as one row, with an empty row between; the screen wraps them."""
    first, *more = text.split("\n\n")
    yield " ".join(first.split())
    for paragraph in more:
        yield from ("", " ".join(paragraph.split()))


def _one_of_own(conversation: Conversation, name: str) -> None:
    """Show a command or skill of the user's own. Raises UsageError when there is none."""
    own = read_own_commands(conversation)
    command, skill = own.commands.get(name), own.skill(name)
    if command is not None:
        head = f"/{name} {command.takes}".rstrip()
        said = [f"It says what is in {command.shown}:", *command.body.split("\n")]
    elif skill is not None:
        head = " ".join([f"/{skill.name}", *(f"{name}=…" for name in skill.inputs)])
        said = [skill.description, f"A skill: {skill.shown}"]
    else:
        raise unknown_command(name, own)
    conversation.print(
        [Span(printable(head), "bold")], *([Span(printable(row))] for row in said if row)
    )


SLASH_COMMAND = SlashCommand(help_, takes="[COMMAND]", at_once=True)
