"""Show the help of a command, as COMMAND --help does.

Examples:
  agent help run
"""

from __future__ import annotations

from typing import Annotated

from agentcli.cli.command_tree import dispatch
from agentcli.cli.options import argument


def help_(
    command: Annotated[
        list[str] | None, argument("COMMAND", "Such as run, or sessions list; none: all of them.")
    ] = None,
) -> int:
    return dispatch([*(command or ()), "--help"])


COMMAND = help_
