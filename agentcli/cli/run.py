"""`agent run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.flags import Flags, with_flags
from agentcli.cli.inputs import attached, piped_beside, told
from agentcli.cli.resume import Reopening, Wanted

if TYPE_CHECKING:
    from agentcli.app.agent_builder import AgentBuilder
    from agentcli.app.open_session import OpenSession
    from agentcli.cli.work import Outcome


@with_flags
def run(
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
    """Do a task. Piped input is added to it: git diff | agent run "review this"."""
    from agentcli.cli.work import work
    from agentcli.errors import UsageError

    options = flags.options()
    if session is None and not continue_newest:
        return work(options, _Starting(task, flags, name))
    if name is not None:
        raise UsageError(
            "--name is for a new session", hint="agent sessions rename gives an old one a name"
        )
    return work(options, Reopening(Wanted(session, newest=continue_newest), task, flags))


class _Starting:
    """A new session for a task from the arguments, from stdin, or from both."""

    def __init__(self, task: str | None, flags: Flags, name: str | None) -> None:
        self._task = task
        self._no_stdin = flags.no_stdin
        self._name = name
        self._images = flags.images or ()

    def workspace(self, folder: str | None) -> Path:
        from agentcli.app.agent_builder import resolve_workspace

        return resolve_workspace(folder)

    def _checked_name(self, builder: AgentBuilder) -> str | None:
        from agentcli.sessions.manage.naming import checked_name, require_free

        if self._name is None:
            return None
        name = checked_name(self._name)
        require_free(builder.home, name)
        return name

    def open(self, builder: AgentBuilder, outcome: Outcome) -> OpenSession:
        from agentcli.cli import stdin
        from agentcli.errors import UsageError

        task = self._task
        all_piped = task == "-" or (task is None and stdin.is_piped() and not self._no_stdin)
        if not all_piped and not (task or "").strip():
            raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
        image_urls = attached(self._images)
        name = self._checked_name(builder)
        # What can be known to be wrong is told before anyone waits for the end of a pipe.
        ready = builder.prepare()
        if all_piped:
            task, piped = None, stdin.read_task()
        else:
            piped = piped_beside(builder, self._no_stdin)
        with stdin.kept_on_failure(piped):
            bench = builder.create(outcome.subscribers, name, ready)
            with bench.closed_on_failure():
                bench.say(told(builder, bench, task, piped), image_urls)
        return bench
