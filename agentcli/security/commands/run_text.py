"""Finds which parts of a script's text may run. Quoted text and here-documents are data, unless
some part of the script runs its words or its input."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.security.commands.effects import system_command_name
from agentcli.security.commands.script import Redirect, Script, SimpleCommand
from agentcli.security.commands.shell_words import without_quoted
from agentcli.security.commands.wrappers import INTERPRETERS, SHELLS

_RUNS_TEXT = {*SHELLS, "eval", "source", ".", "trap", "watch", "xargs", "find", "parallel"}


def inputs_of(command: SimpleCommand) -> Iterator[Redirect]:
    """Yield what is given to a command as its input, directly or through a pipe."""
    source: SimpleCommand | None = command
    while source is not None:
        yield from source.redirects
        source = source.piped_from


def run_text(text: str, script: Script, *, other_languages: bool) -> str:
    """Return `text` without the data in it. `other_languages`: count code of interpreters too."""
    for command in script.commands:
        names = {*command.wrappers, system_command_name(command.words)}
        if command.words[:1] == (None,) or names & _RUNS_TEXT:
            return text
        if other_languages and any(map(INTERPRETERS.fullmatch, names)):
            return text
    for command in script.commands:
        for redirect in command.redirects:
            text = text.replace(redirect.text, "") if redirect.text else text
    return without_quoted(text)
