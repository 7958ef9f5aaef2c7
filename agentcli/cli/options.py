"""How commands declare options and arguments, and those that several commands have."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from agentcli.errors import UsageError

_NUMBER = re.compile(r"0*[1-9][0-9]{0,8}")


def option(spelling: str, about: str = "", **limits: Any) -> Any:
    """Declare an option as the help shows it: its names, then what its value is called, as in
    "--model, -m NAME". A flag has no value."""
    words = spelling.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    value = next((word for word in words if not word.startswith("-")), None)
    return typer.Option(*names, metavar=value, help=about or None, **limits)


def argument(name: str, about: str = "", **limits: Any) -> Any:
    """Declare an argument, which the help calls `name`."""
    return typer.Argument(metavar=name, help=about or None, **limits)


def number(text: str, example: str) -> int:
    """Return `text` as a number from 1 up. Raises UsageError for anything else."""
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{text!r} is not a number (1 or more)", hint=f"such as {example}")
    return int(text)


Json = Annotated[bool, option("--json", "For programs.")]
Everywhere = Annotated[bool, option("--all, -a", "Of all folders, not only of this one.")]
Yes = Annotated[bool, option("--yes, -y", "Do not ask.")]
OneSession = Annotated[str, argument("SESSION", "Id, unique start of one, or name.")]
NoPager = Annotated[bool, option("--no-pager", "Straight to the terminal, however long it is.")]
ContinueNewest = Annotated[bool, option("--continue, -c", "Go on with the newest session here.")]
NewName = Annotated[str | None, option("--name NAME", "Name of the new session.")]
Assignments = Annotated[
    list[str] | None, option("--set KEY=VALUE", "Override a setting; repeatable.")
]
_NAMED = "Id, unique start of one, or name"
SessionOrNewest = Annotated[
    str | None, argument("SESSION", f"{_NAMED}; the newest here if left out.")
]
Last = Annotated[bool, option("--last", "The newest session here.", hidden=True)]
"""The default where no session is named; scripts may state it explicitly."""
SessionOption = Annotated[
    str | None, option("--session, -s SESSION", f"{_NAMED}; not the newest one here.")
]
