"""A session to go on with, as `agent resume` and `agent run --continue` open it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.config import resolve_workspace
from agentcli.app.open_session import OpenSession
from agentcli.cli import stdin
from agentcli.cli.flags import Flags
from agentcli.cli.inputs import attached, message_text, piped_beside
from agentcli.cli.outcome import OutcomeReporter
from agentcli.cli.session_common import tell_cut_off
from agentcli.cli.session_selector import Chosen, SessionSelector
from agentcli.errors import ConfigError, UsageError
from agentcli.sessions import inbox
from agentcli.sessions.search.finder import state_of
from agentcli.sessions.session import Session, Subscriber
from agentcli.sessions.state import ELSEWHERE
from agentcli.ui.resume_summary import one_line, show_summary, summarise

_LONGEST_QUOTED = 60


class StoredSession:
    """An old session, with a message or just to go on."""

    def __init__(self, which: SessionSelector, message: str | None, flags: Flags) -> None:
        self._which = which
        self._message = message
        self._typed = ""
        self._flags = flags
        self._images = flags.images or ()
        self._folder: Path | None = None

    def workspace(self, folder: str | None) -> Path:
        self._folder, self._typed = _found(self._which, folder)
        return resolve_workspace(folder) if folder else workspace_of(self._folder)

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        assert self._folder is not None
        message: str | None = self._message or self._typed
        piped = None
        if self._images and not message:
            raise UsageError(
                "nothing is said of the image",
                hint=f'e.g. agent resume {self._folder.name} "what is wrong here?" -i FILE',
            )

        def subscribers(session: Session) -> Sequence[Subscriber]:
            self._tell_summary(session)
            return outcome.subscribers(session)

        if self._message == "-":
            message, piped = None, stdin.read_task()
        elif message:
            piped = piped_beside(builder, self._flags.no_stdin)
        image_urls = attached(self._images)
        with stdin.kept_on_failure(piped):
            opened = builder.reopen(
                self._folder, subscribers, self._flags.model, has_message=piped is not None
            )
            if piped is not None:
                with opened.closed_on_failure():
                    said = message_text(builder, opened, message, piped)
                    opened.say(said, image_urls, message or "")
        return opened

    def _tell_summary(self, session: Session) -> None:
        with suppress(OSError):
            tell_cut_off(session)
        if self._flags.quiet:
            return

        waiting = [session.redact(message.text) for message in inbox.waiting(session.folder)]
        summary = summarise(session.events, session.state, waiting)
        # Without a reader of stderr the session goes on all the same.
        with suppress(OSError):
            if sys.stderr.isatty() or self._flags.verbose:
                show_summary(summary, sys.stderr, datetime.now(UTC))
            else:
                print(one_line(summary), file=sys.stderr)


def _found(which: SessionSelector, folder: str | None) -> Chosen:
    try:
        return which.find(folder)
    except UsageError as error:
        wanted = which.session or ""
        if " " in wanted.strip():
            error.hint += f"\n  to tell that to the newest one here: {_as_message(wanted)}"
        raise


def _as_message(text: str) -> str:
    quoted = shlex.quote(text)
    return f"agent resume --last {quoted if len(quoted) <= _LONGEST_QUOTED else '…'}"


def workspace_of(folder: Path) -> Path:
    """Where a session worked. Raises ConfigError when that is no longer there."""
    state = state_of(folder)
    if state.place is None:
        gone = "" if state.workspace.startswith(ELSEWHERE) else ", which is no longer there"
        raise ConfigError(
            f"session {folder.name} worked in {state.workspace}{gone}",
            hint=f"say where it is to go on: agent resume {folder.name} -C DIR",
        )
    return resolve_workspace(str(state.place))
