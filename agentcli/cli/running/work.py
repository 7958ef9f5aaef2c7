"""One turn of work from the command line, in a new or a stored session: from flags to exit code."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from agentcli import interrupts
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.attachments import attached
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import requirement_spec
from agentcli.app.resume import workspace_of
from agentcli.cli.builders import given_settings
from agentcli.cli.flags import Flags
from agentcli.cli.running import stdin
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.cli.running.stdin import UserInput, piped_beside
from agentcli.cli.running.typed_ahead import TypedAhead, is_typed_at
from agentcli.cli.sessions.selector import (
    SessionSelector,
    clean_up_interrupted_work,
    warn_unfinished_restore,
)
from agentcli.cli.user_questions import asking_builder
from agentcli.errors import SetupNeeded, UsageError
from agentcli.events.progress import Notice
from agentcli.sessions import inbox
from agentcli.sessions.finder import free_name
from agentcli.sessions.session import SessionLog, SessionRecord, Subscriber, read_session
from agentcli.ui.text import say_note
from agentcli.ui.tty import can_ask

_OBJECTS_OF_STEPS = 700
"""Number of new objects after which Python looks for cycles among the young ones: Python 3.11's own
default, whatever was set at the start."""
_kept_to_the_end: list[object] = []
"""Objects kept until the process ends: freeing a long session's events would take longer than
everything else at the end of a run."""


class Opening(Protocol):
    """A new session, or a stored one to continue."""

    def workspace(self, folder: str | None) -> Path:
        """Return the folder to work in; `folder` is the value of -C."""

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        """Return the session, with what the user said recorded in it."""

    def read(self, builder: AgentBuilder) -> UserInput:
        """Return what the user says, for a caller that opens the session. Raises UsageError."""


def work(flags: Flags, opening: Opening) -> int:
    """Open a session as `opening` does, let the agent work for one turn, and report the outcome.
    Return the exit code."""
    outcome = OutcomeReporter(flags)
    with outcome.reporting(), one_turn(_open(flags, opening, outcome), flags, outcome) as opened:
        outcome.finish(opened.work())
    return outcome.exit_code


def _open(flags: Flags, opening: Opening, outcome: OutcomeReporter) -> OpenSession:
    """Open the session; at a terminal, a user without a model or a key is asked for one."""
    use_configured_store(given_settings(flags))
    workspace = opening.workspace(flags.folder)
    builder = asking_builder(flags, workspace, outcome.renderer, folds=flags.quiet)
    outcome.count_time()
    outcome.notify_by(builder.settings.ui)
    clean_up_interrupted_work()
    try:
        return opening.open(builder, outcome)
    except SetupNeeded as missing:
        from agentcli.cli.first_setup import set_up

        if not (can_ask() and sys.stdin.isatty() and set_up(builder, missing)):
            raise
    return _open(flags, opening, outcome)


@contextmanager
def one_turn(opened: OpenSession, flags: Flags, outcome: OutcomeReporter) -> Iterator[OpenSession]:
    """Wrap the work of one turn: what is typed meanwhile goes to the session, Ctrl-Z leaves the
    terminal in order, and the session is closed at the end."""
    _kept_to_the_end.append(opened)
    # Everything loaded so far stays, so no search for cycles needs to examine it again.
    gc.freeze()
    gc.set_threshold(_OBJECTS_OF_STEPS, *gc.get_threshold()[1:])
    typed = TypedAhead(
        opened.session, lambda text: outcome.renderer.on_progress(Notice(text)), say_note
    )
    with ExitStack() as ending:
        ending.callback(typed.end)
        ending.callback(outcome.close)
        ending.callback(opened.close)
        if not flags.no_stdin and is_typed_at():
            typed.begin()
        outcome.begin()
        screen = outcome.renderer.screen
        with interrupts.around_stop(screen.suspend, screen.resume):
            yield opened


@dataclass(frozen=True)
class NewSession:
    """A new session for a `task` from the arguments, from stdin, or from both. `begun` is called
    before any work begins in it."""

    task: str | None
    flags: Flags
    name: str | None = None
    begun: Callable[[AgentBuilder, OpenSession], None] = lambda builder, opened: None

    def workspace(self, folder: str | None) -> Path:
        return resolve_workspace(folder)

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        image_urls = self._checked_images(builder)
        required = requirement_spec(builder.settings.run, self.flags.output_schema, builder.environ)
        name = None if self.name is None else free_name(builder.home, self.name)
        # Mistakes that can be found early are reported before anyone waits for the end of a pipe.
        ready = builder.prepare()
        said = self._read(builder, image_urls)
        with stdin.kept_on_failure(said.piped):
            opened = builder.create(outcome.subscribers, name, ready)
            with opened.closed_on_failure():
                self.begun(builder, opened)
            said.record(builder, opened, required)
        return opened

    def read(self, builder: AgentBuilder) -> UserInput:
        """Return the task, for a caller that opens the session. Raises UsageError."""
        return self._read(builder, self._checked_images(builder))

    @property
    def _all_piped(self) -> bool:
        piped = self.task is None and stdin.is_piped() and not self.flags.no_stdin
        return self.task == "-" or piped

    def _checked_images(self, builder: AgentBuilder) -> tuple[str, ...]:
        """Return the images as data URLs. Raises UsageError for a bad one, or without a task."""
        if not self._all_piped and not (self.task or "").strip():
            raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
        return attached(self.flags.images or (), builder.why_unread)

    def _read(self, builder: AgentBuilder, image_urls: tuple[str, ...]) -> UserInput:
        if self._all_piped:
            return UserInput(None, stdin.read_task(), image_urls)
        return UserInput(self.task, piped_beside(builder, self.flags.no_stdin), image_urls)


_LONGEST_QUOTED = 60
_FLAGS = {"check": "--check", "tests": "--require-evidence", "answer_schema": "--output-schema"}
"""The flags, by the keys under which a session's state keeps what they require."""


@dataclass
class ContinuedSession:
    """A stored session, continued with or without a message."""

    which: SessionSelector
    message: str | None
    flags: Flags
    _folder: Path | None = None
    _typed: str = ""
    """The message that the user typed while choosing the session."""

    def workspace(self, folder: str | None) -> Path:
        try:
            self._folder, self._typed = self.which.find(folder)
        except UsageError as error:
            wanted = self.which.session or ""
            if " " in wanted.strip():
                quoted = shlex.quote(wanted)
                message = quoted if len(quoted) <= _LONGEST_QUOTED else "…"
                newest = f"agent resume --last {message}"
                error.hint += f"\n  to send that to the newest one here: {newest}"
            raise
        return resolve_workspace(folder) if folder else workspace_of(self._folder)

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        said = self.read(builder)
        required = requirement_spec(builder.settings.run, self.flags.output_schema, builder.environ)

        def subscribers(session: SessionLog) -> Sequence[Subscriber]:
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

    def _tell_summary(self, session: SessionLog) -> None:
        with suppress(OSError):
            warn_unfinished_restore(session)
        if self.flags.quiet:
            return
        from agentcli.ui.resume_summary import one_line, show_summary, summarise

        waiting = [session.redact(message.text) for message in inbox.waiting(session.folder)]
        summary = summarise(session.events, session.state, waiting)
        # If nobody reads stderr, the session continues all the same.
        with suppress(OSError):
            if sys.stderr.isatty() or self.flags.verbose:
                show_summary(summary, sys.stderr, datetime.now(UTC))
            else:
                print(one_line(summary), file=sys.stderr)

    def _tell_dropped(self, session: SessionLog) -> None:
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


def continue_session(folder: Path, message: str | None, model: str | None = None) -> int:
    """Let the agent, or another `model`, work on `message` in the session in `folder`, or on what
    is left to do there. Return the exit code."""
    flags = Flags(model=model)
    return work(flags, ContinuedSession(SessionSelector(folder.name), message, flags))
