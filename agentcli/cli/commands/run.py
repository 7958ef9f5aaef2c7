"""Do a task. Piped input is added to it.

Examples:
  agent run "fix the failing test"
  git diff | agent run "review this" > review.txt
  agent run -m sonnet --approval plan "how would you split this module?"
  agent run --json --max-time 10m "fix the bug" < /dev/null
"""

from __future__ import annotations

from typing import Annotated

import typer

from agentcli.cli.flags import Flags, with_flags
from agentcli.errors import UsageError


def run_once(
    flags: Flags,
    task: Annotated[
        str | None, typer.Argument(help="What to do; - takes it from stdin.", metavar="TASK")
    ] = None,
    continue_newest: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the newest session here.")
    ] = False,
    session: Annotated[
        str | None,
        typer.Option("--resume", "-r", metavar="SESSION", help="Go on with this session."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new session.")
    ] = None,
) -> int:
    # Help and wrong flags need nothing of what a session is made of, which takes 0.3 s to load.
    from agentcli.cli.work import work

    if session is None and not continue_newest:
        from agentcli.cli.new_session import NewSession

        return work(flags, NewSession(task, flags, name))
    if name is not None:
        raise UsageError(
            "--name is for a new session", hint="agent sessions rename gives an old one a name"
        )
    from agentcli.cli.session_selector import SessionSelector
    from agentcli.cli.stored_session import StoredSession

    return work(flags, StoredSession(SessionSelector(session, newest=continue_newest), task, flags))


COMMAND = with_flags(run_once)
