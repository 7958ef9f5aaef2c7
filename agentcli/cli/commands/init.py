"""Have the model look at this project and write AGENTS.md, which each session here begins with. One
that is there is brought up to date.

Examples:
  agent init
"""

from __future__ import annotations

from agentcli.app.init_task import INIT_TASK
from agentcli.cli.flags import Flags, with_flags


@with_flags
def init(flags: Flags) -> int:
    # Help and wrong flags need nothing of what a session is made of, which takes 0.3 s to load.
    from agentcli.cli.new_session import NewSession
    from agentcli.cli.work import work

    return work(flags, NewSession(INIT_TASK, flags, None))


COMMAND = init
