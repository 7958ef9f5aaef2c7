"""`agent run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.flags import Flags, with_flags

if TYPE_CHECKING:
    from agentcli.cli import stdin
    from agentcli.cli.work import Outcome
    from agentcli.wiring import Wiring
    from agentcli.workbench import Workbench


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
    from agentcli.cli.resume import Reopening, Wanted
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
        from agentcli.wiring import resolve_workspace

        return resolve_workspace(folder)

    def _checked_name(self, wiring: Wiring) -> str | None:
        from agentcli.sessions.naming import checked_name, require_free

        if self._name is None:
            return None
        name = checked_name(self._name)
        require_free(wiring.home, name)
        return name

    def open(self, wiring: Wiring, outcome: Outcome) -> Workbench:
        from agentcli.cli import stdin
        from agentcli.errors import UsageError

        task = self._task
        all_piped = task == "-" or (task is None and stdin.is_piped() and not self._no_stdin)
        if not all_piped and not (task or "").strip():
            raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
        image_urls = attached(self._images)
        name = self._checked_name(wiring)
        # What can be known to be wrong is told before anyone waits for the end of a pipe.
        ready = wiring.prepare()
        if all_piped:
            task, piped = None, stdin.read_task()
        else:
            piped = piped_beside(wiring, self._no_stdin)
        with stdin.kept_on_failure(piped):
            bench = wiring.create(outcome.subscribers, name, ready)
            with bench.closed_on_failure():
                bench.say(told(wiring, bench, task, piped), image_urls)
        return bench


def attached(images: Sequence[Path]) -> tuple[str, ...]:
    """The images of -i as data URLs. Raises UsageError for one that no model would take, and for
    more than fit into a request."""
    from agentcli.errors import UsageError
    from agentcli.runtime.images import MAX_TOGETHER, ImageFault, file_url
    from agentcli.runtime.names import display_path, size_text

    urls = []
    for path in images:
        try:
            urls.append(file_url(path))
        except ImageFault as fault:
            raise UsageError(f"{display_path(path)} {fault}") from fault
        except OSError as error:
            raise UsageError(f"{display_path(path)} can't be read: {error.strerror}") from error
    size = sum(len(url) for url in urls)
    if size > MAX_TOGETHER:
        raise UsageError(
            f"the images are {size_text(size)} as they are sent, more than the "
            f"{size_text(MAX_TOGETHER)} that go into one message",
            hint="make them smaller, or tell the model where they are: it can read them",
        )
    return tuple(urls)


def told(wiring: Wiring, bench: Workbench, message: str | None, piped: stdin.Piped) -> str:
    """What the person says by arguments and stdin; without `message` stdin is all of it."""
    from agentcli.cli import stdin

    outputs, limit = bench.session.outputs, wiring.settings.input.stdin_max_bytes
    if message is None:
        return stdin.said(piped, outputs, limit)
    return stdin.with_piped(message, piped, outputs, limit)


def piped_beside(wiring: Wiring, no_stdin: bool) -> stdin.Piped:
    from agentcli.cli import stdin

    if no_stdin or not stdin.is_piped():
        return stdin.Piped()
    waits = wiring.settings.input
    return stdin.read_beside_task(waits.stdin_notice_s, waits.stdin_limit_s, stdin.tell_on_stderr)
