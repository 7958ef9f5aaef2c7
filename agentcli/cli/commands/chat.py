"""Talk with the agent at a terminal; what `agent` alone does.

Type what is to be done; / shows the commands, @ mentions files, ! runs a shell command. What you
type while the agent works reaches it at its next step.

Examples:
  agent
  agent "the login test fails, find out why"
  agent -c                            # the newest session here
  agent -r parser -m sonnet           # this one, with another model
"""

from __future__ import annotations

from typing import Annotated

from agentcli.cli.flags import Flags, with_flags
from agentcli.cli.options import ContinueNewest, NewName, argument, option
from agentcli.errors import UsageError


@with_flags
def chat(
    flags: Flags,
    task: Annotated[str | None, argument("TASK", "What to do first.")] = None,
    continue_newest: ContinueNewest = False,
    session: Annotated[
        str | None, option("--resume, -r SESSION", "Go on with this session; - for a list.")
    ] = None,
    name: NewName = None,
    once: Annotated[bool, option("--print, -p", "Do the task and end, as agent run does.")] = False,
) -> int:
    if once:
        from agentcli.cli.commands.run import run_once

        return run_once(
            flags, task=task, continue_newest=continue_newest, session=session, name=name
        )
    if flags.format != "text":
        raise UsageError("a conversation has no JSON output", hint="agent run --json")
    if flags.requires:
        raise UsageError(
            f"{flags.requires} does not apply to a conversation",
            hint=f"agent run {flags.requires} …",
        )
    from agentcli.cli.conversation.launch import converse

    return converse(flags, task, name, session, newest=continue_newest)


COMMAND = chat
