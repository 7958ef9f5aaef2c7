"""Continue a session where it stopped.

Examples:
  agent resume                        # choose a session of this folder
  agent resume --last "now the docs"
  agent resume parser
"""

from __future__ import annotations

from typing import Annotated

from agentcli.cli.flags import Flags, TryCount, TryModels, with_flags
from agentcli.cli.options import Everywhere, argument, option


@with_flags
def resume(
    flags: Flags,
    session: Annotated[
        str | None,
        argument("SESSION", "Id, unique start of one, or name; chosen from a list if left out."),
    ] = None,
    message: Annotated[
        str | None, argument("MESSAGE", "What to do next; - takes it from stdin.")
    ] = None,
    last: Annotated[bool, option("--last, --continue, -c", "The session used last here.")] = False,
    everywhere: Everywhere = False,
    tries: TryCount = None,
    try_models: TryModels = None,
) -> int:
    # Help and wrong flags don't need the modules of sessions, which take 0.3 s to load.
    from agentcli.cli.running.work import ContinuedSession, work
    from agentcli.cli.sessions.selector import SessionSelector

    if last and message is None:
        session, message = None, session
    which = SessionSelector(session, newest=last, everywhere=everywhere)
    stored, models = ContinuedSession(which, message, flags), try_models or []
    if tries is None and not models:
        return work(flags, stored)
    from agentcli.cli.run_attempts import AttemptOptions, run_attempts

    options = AttemptOptions(tries or len(models), models)
    return run_attempts(flags, stored, options, stored.record)


COMMAND = resume
