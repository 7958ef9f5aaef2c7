"""`agent resume`: going on with a session, and which one that is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.flags import Flags, with_flags
from agentcli.cli.inputs import attached, piped_beside, told
from agentcli.system.programs import person_environ

if TYPE_CHECKING:
    from agentcli.app.agent_builder import AgentBuilder
    from agentcli.app.open_session import OpenSession
    from agentcli.cli.work import Outcome
    from agentcli.sessions.search.finder import Found
    from agentcli.sessions.session import Session, Subscriber
    from agentcli.ui.picker import Choice

_LONGEST_QUOTED = 60


@with_flags
def resume(
    flags: Flags,
    session: Annotated[
        str | None,
        typer.Argument(
            help="Id, unique start of one, or name; chosen from a list if left out.",
            metavar="SESSION",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Argument(help="What to do next; - takes it from stdin.", metavar="MESSAGE"),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", "--continue", "-c", help="The session used last here.")
    ] = False,
    everywhere: Annotated[
        bool, typer.Option("--all", "-a", help="Of all folders, not only of this one.")
    ] = False,
) -> int:
    """Go on with a session where it stopped."""
    from agentcli.cli.work import work

    if last and message is None:
        session, message = None, session
    wanted = Wanted(session, newest=last, everywhere=everywhere)
    return work(flags.options(), Reopening(wanted, message, flags))


@dataclass(frozen=True)
class Wanted:
    """Which session: the one named, the one used last, or one that the person at the terminal
    chooses; of this folder or of all."""

    session: str | None = None
    newest: bool = False
    everywhere: bool = False

    def find(self, folder: str | None) -> Path:
        """Where it is, `folder` being what -C says. Raises UsageError, TurnInterrupted on ^C."""
        from agentcli.app.agent_builder import resolve_workspace
        from agentcli.app.config import state_home
        from agentcli.errors import UsageError
        from agentcli.sessions.search.finder import newest

        home = state_home(person_environ())
        if self.session is not None:
            if self.newest or self.everywhere:
                other = "the newest one" if self.newest else "--all"
                raise UsageError(f"which session: {self.session!r} or {other}?")
            return _named(home, self.session)
        workspace = None if self.everywhere else resolve_workspace(folder)
        return newest(home, workspace) if self.newest else _chosen(home, workspace)


class Reopening:
    """An old session, with a message or just to go on."""

    def __init__(self, wanted: Wanted, message: str | None, flags: Flags) -> None:
        self._wanted = wanted
        self._message = message
        self._flags = flags
        self._images = flags.images or ()
        self._folder: Path | None = None

    def workspace(self, folder: str | None) -> Path:
        from agentcli.app.agent_builder import resolve_workspace

        self._folder = self._wanted.find(folder)
        return resolve_workspace(folder) if folder else _workspace_of(self._folder)

    def open(self, builder: AgentBuilder, outcome: Outcome) -> OpenSession:
        from agentcli.cli import stdin
        from agentcli.errors import UsageError

        assert self._folder is not None
        if self._images and not self._message:
            raise UsageError(
                "nothing is said of the image",
                hint=f'e.g. agent resume {self._folder.name} "what is wrong here?" -i FILE',
            )

        def subscribers(session: Session) -> Sequence[Subscriber]:
            self._tell_standing(session)
            return outcome.subscribers(session)

        message, piped = self._message, None
        if message == "-":
            message, piped = None, stdin.read_task()
        elif message:
            piped = piped_beside(builder, self._flags.no_stdin)
        image_urls = attached(self._images)
        with stdin.kept_on_failure(piped):
            bench = builder.reopen(
                self._folder, subscribers, self._flags.model, has_message=piped is not None
            )
            if piped is not None:
                with bench.closed_on_failure():
                    bench.say(told(builder, bench, message, piped), image_urls)
        return bench

    def _tell_standing(self, session: Session) -> None:
        from agentcli.cli.session_common import tell_cut_off

        with suppress(OSError):
            tell_cut_off(session)
        if self._flags.quiet:
            return
        from agentcli.sessions import inbox
        from agentcli.ui.resume_summary import one_line, show_standing, standing

        waiting = [session.redact(letter.text) for letter in inbox.letters(session.folder)]
        stands = standing(session.events, session.state, waiting)
        # Without a reader of stderr the session goes on all the same.
        with suppress(OSError):
            if sys.stderr.isatty() or self._flags.verbose:
                show_standing(stands, sys.stderr, datetime.now(UTC))
            else:
                print(one_line(stands), file=sys.stderr)


def _named(home: Path, wanted: str) -> Path:
    from agentcli.errors import UsageError
    from agentcli.sessions.search.finder import find

    try:
        return find(home, wanted)
    except UsageError as error:
        if " " in wanted.strip():
            error.hint += f"\n  to tell that to the newest one here: {_as_message(wanted)}"
        raise


def _as_message(text: str) -> str:
    quoted = shlex.quote(text)
    return f"agent resume --last {quoted if len(quoted) <= _LONGEST_QUOTED else '…'}"


def _workspace_of(folder: Path) -> Path:
    """Where a session worked. Raises ConfigError when that is no longer there."""
    from agentcli.app.agent_builder import resolve_workspace
    from agentcli.errors import ConfigError
    from agentcli.sessions.search.finder import state_of
    from agentcli.sessions.state import ELSEWHERE

    state = state_of(folder)
    if state.place is None:
        gone = "" if state.workspace.startswith(ELSEWHERE) else ", which is no longer there"
        raise ConfigError(
            f"session {folder.name} worked in {state.workspace}{gone}",
            hint=f"say where it is to go on: agent resume {folder.name} -C DIR",
        )
    return resolve_workspace(str(state.place))


def _chosen(home: Path, workspace: Path | None) -> Path:
    """The session that the person picks. Raises UsageError when there is no person, nothing to
    choose from, or nothing chosen."""
    from agentcli.errors import UsageError
    from agentcli.sessions.search.finder import no_session, offered

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "which session?", hint="agent resume --last, or an id of: agent sessions list"
        )
    found = offered(home, workspace)
    if not found:
        raise no_session(workspace)
    from agentcli.ui.picker import pick

    choice = pick([_choice(each, with_folder=workspace is None) for each in found])
    if choice is None:
        raise UsageError("nothing chosen")
    return home / "sessions" / choice.session_id


def _choice(found: Found, *, with_folder: bool) -> Choice:
    from agentcli.sessions.search.finder import in_use_by
    from agentcli.ui.picker import Choice
    from agentcli.ui.resume_summary import ago, how_it_ended

    state = found.state
    used = datetime.fromisoformat(state.updated_at).astimezone(UTC)
    user_home = person_environ().get("HOME", "")
    folder = state.workspace
    if user_home and folder.startswith(f"{user_home}/"):
        folder = f"~{folder.removeprefix(user_home)}"
    return Choice(
        session_id=found.folder.name,
        age=ago((datetime.now(UTC) - used).total_seconds()),
        state=how_it_ended(state.agent_state, state.exit_code),
        steps=state.iteration,
        cost_usd=state.cost_usd,
        title=state.title,
        name=state.name or "",
        folder=folder if with_folder else "",
        pid=in_use_by(found.folder),
    )
