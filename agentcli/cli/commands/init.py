"""Have the model look at this project and write AGENTS.md.

Each session here is given that file when it begins. An existing AGENTS.md is brought up to date.

Examples:
  agent init
"""

from __future__ import annotations

from agentcli.agent.prompts import INIT_TASK
from agentcli.cli.flags import Flags, with_flags


@with_flags
def init(flags: Flags) -> int:
    # Help and wrong flags don't need the modules of sessions, which take 0.3 s to load.
    from agentcli.cli.running.work import NewSession, work

    return work(flags, NewSession(INIT_TASK, flags))


COMMAND = init
