"""A session to continue, as `agent resume` and `agent run --continue` open it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.attachments import attached
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import requirement_spec
from agentcli.app.resume import workspace_of
from agentcli.cli.flags import Flags
from agentcli.cli.running import stdin
from agentcli.cli.running.inputs import UserInput, piped_beside
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.cli.running.work import work
from agentcli.cli.sessions.selector import Chosen, SessionSelector, warn_unfinished_restore
from agentcli.errors import UsageError
from agentcli.sessions import inbox
from agentcli.sessions.session import Session, SessionRecord, Subscriber, read_session
from agentcli.ui.resume_summary import one_line, show_summary, summarise
from agentcli.ui.text import say_note

_LONGEST_QUOTED = 60
_FLAGS = {"check": "--check", "tests": "--require-evidence", "answer_schema": "--output-schema"}
"""The flags, by the keys under which a session's state keeps what they require."""


def work_in_stored(
    flags: Flags,
    which: SessionSelector,
    message: str | None,
    tries: int | None,
    models: Sequence[str],
) -> int:
    """Continue a session, in several tries if they are wanted; return the exit code."""
    stored = StoredSession(which, message, flags)
    if tries is None and not models:
        return work(flags, stored)
    from agentcli.cli.run_attempts import AttemptOptions, run_attempts

    options = AttemptOptions(tries or len(models), models)
    return run_attempts(flags, stored, options, stored.record)


@dataclass
class StoredSession:
    """An old session, continued with or without a message."""

    which: SessionSelector
    message: str | None
    flags: Flags
    _folder: Path | None = None
    _typed: str = ""
    """The message that the user typed while choosing the session."""

    def workspace(self, folder: str | None) -> Path:
        self._folder, self._typed = _find(self.which, folder)
        return resolve_workspace(folder) if folder else workspace_of(self._folder)

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        said = self.read(builder)
        required = requirement_spec(builder.settings.run, self.flags.output_schema, builder.environ)

        def subscribers(session: Session) -> Sequence[Subscriber]:
            self._tell_summary(session)
            if said.piped is not None and required is None:
                self._tell_dropped(session)
            return outcome.subscribers(session)

        with stdin.kept_on_failure(said.piped):
            opened = builder.reopen(
                self.folder,
                subscribers,
                self.flags.model,
                has_message=said.piped is not None,
                required=required,
            )
            said.record(builder, opened, required)
        return opened

    @property
    def folder(self) -> Path:
        """The folder of the session, once `workspace` has found it."""
        assert self._folder is not None
        return self._folder

    def record(self) -> SessionRecord:
        return read_session(self.folder)

    def read(self, builder: AgentBuilder) -> UserInput:
        """Return what is said to the session. Raises UsageError."""
        message: str | None = self.message or self._typed
        if self.flags.images and not message:
            raise UsageError(
                "the image needs a message",
                hint=f'e.g. agent resume {self.folder.name} "what is wrong here?" -i FILE',
            )
        piped = None
        if self.message == "-":
            message, piped = None, stdin.read_task()
        elif message:
            piped = piped_beside(builder, self.flags.no_stdin)
        return UserInput(message, piped, attached(self.flags.images or (), builder.why_unread))

    def _tell_summary(self, session: Session) -> None:
        with suppress(OSError):
            warn_unfinished_restore(session)
        if self.flags.quiet:
            return

        waiting = [session.redact(message.text) for message in inbox.waiting(session.folder)]
        summary = summarise(session.events, session.state, waiting)
        # If nobody reads stderr, the session continues all the same.
        with suppress(OSError):
            if sys.stderr.isatty() or self.flags.verbose:
                show_summary(summary, sys.stderr, datetime.now(UTC))
            else:
                print(one_line(summary), file=sys.stderr)

    def _tell_dropped(self, session: Session) -> None:
        """Say which unmet requirements of the earlier work no longer hold, as this is new work."""
        if self.flags.quiet or not session.state.required or session.state.exit_code == 0:
            return
        required = session.state.required
        flags = [flag for key, flag in _FLAGS.items() if required[key] not in (None, False, "")]
        with suppress(OSError):
            say_note(
                f"{' and '.join(flags)} applied to the earlier work only; "
                "give it again to apply it to this message"
            )


def _find(which: SessionSelector, folder: str | None) -> Chosen:
    try:
        return which.find(folder)
    except UsageError as error:
        wanted = which.session or ""
        if " " in wanted.strip():
            error.hint += f"\n  to send that to the newest one here: {_as_message(wanted)}"
        raise


def _as_message(text: str) -> str:
    quoted = shlex.quote(text)
    return f"agent resume --last {quoted if len(quoted) <= _LONGEST_QUOTED else '…'}"


def continue_session(folder: Path, message: str | None, model: str | None = None) -> int:
    """Let the agent, or another `model`, work on `message` in the session in `folder`, or on what
    is left to do there. Return the exit code."""
    flags = Flags(model=model)
    return work(flags, StoredSession(SessionSelector(folder.name), message, flags))
