"""Show the help of a command, as COMMAND --help does.

Examples:
  agent help run
"""

from __future__ import annotations

from typing import Annotated

import typer

from agentcli.cli.app import dispatch


def help_(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Such as run, or sessions list; none: all of them.", metavar="COMMAND"),
    ] = None,
) -> int:
    return dispatch([*(command or ()), "--help"])


COMMAND = help_
