"""`agent` without a command is `agent chat`: a conversation, if there is a terminal for it."""

from __future__ import annotations

import os
import shlex
import sys
from itertools import zip_longest

_ABOUT_AGENT = ("-h", "--help", "-V", "--version")
_NO_CONVERSATION = frozenset(("-p", "--print", *_ABOUT_AGENT))


def as_chat(arguments: list[str]) -> list[str]:
    """Add the missing command to arguments such as `agent`, `agent "a task"` and `agent -c`."""
    if not arguments:
        return ["chat"] if no_terminal() == "" else []
    first = arguments[0]
    option = first.startswith("-") and first not in _ABOUT_AGENT
    if not (option or len(first.split()) > 1):
        return arguments
    told = ["chat"]
    for argument, after in zip_longest(arguments, arguments[1:], fillvalue="-"):
        told.append(argument)
        if argument in ("-r", "--resume") and after.startswith("-"):
            told.append("-")
    return told


def opens_conversation(arguments: list[str]) -> bool:
    """Return whether these arguments, as returned by `as_chat`, open a prompt."""
    return (
        arguments[:1] == ["chat"]
        and not _NO_CONVERSATION.intersection(arguments)
        and no_terminal() == ""
    )


def as_run(task: str) -> str:
    """Return the command line that does `task`, in double quotes if nothing in it has a meaning
    there."""
    quoted = shlex.quote(task) if set('"$`!\\').intersection(task) else f'"{task}"'
    return f"agent run {quoted}"


def no_terminal() -> str:
    """Return why no prompt can be shown here; "" if one can."""
    if not (os.isatty(0) and sys.stderr.isatty()):
        return "a conversation needs a terminal"
    return ""
