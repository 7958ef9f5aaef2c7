"""A new session, as `agent run` begins it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.attachments import attached
from agentcli.app.checks.requirement_spec import requirement_spec
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.open_session import OpenSession
from agentcli.cli.flags import Flags
from agentcli.cli.running import stdin
from agentcli.cli.running.inputs import UserInput, piped_beside
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.errors import UsageError
from agentcli.sessions.manage.naming import checked_name, require_free


class NewSession:
    """A new session for a task from the arguments, from stdin, or from both."""

    def __init__(
        self,
        task: str | None,
        flags: Flags,
        name: str | None,
        begun: Callable[[AgentBuilder, OpenSession], None] = lambda builder, opened: None,
    ) -> None:
        """`begun` is called before any work begins in the session."""
        self._task = task
        self._begun = begun
        self._no_stdin = flags.no_stdin
        self._name = name
        self._images = flags.images or ()
        self._schema = flags.output_schema

    def workspace(self, folder: str | None) -> Path:
        return resolve_workspace(folder)

    def _checked_name(self, builder: AgentBuilder) -> str | None:
        if self._name is None:
            return None
        name = checked_name(self._name)
        require_free(builder.home, name)
        return name

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        image_urls = self._checked_images()
        required = requirement_spec(builder.settings.run, self._schema, builder.environ)
        name = self._checked_name(builder)
        # Mistakes that can be found early are reported before anyone waits for the end of a pipe.
        ready = builder.prepare()
        said = self._read(builder, image_urls)
        with stdin.kept_on_failure(said.piped):
            opened = builder.create(outcome.subscribers, name, ready)
            with opened.closed_on_failure():
                self._begun(builder, opened)
            said.record(builder, opened, required)
        return opened

    def read(self, builder: AgentBuilder) -> UserInput:
        """Return the task, for a caller that opens the session. Raises UsageError."""
        return self._read(builder, self._checked_images())

    @property
    def _all_piped(self) -> bool:
        piped = self._task is None and stdin.is_piped() and not self._no_stdin
        return self._task == "-" or piped

    def _checked_images(self) -> tuple[str, ...]:
        """Return the images as data URLs. Raises UsageError for a bad one, or without a task."""
        if not self._all_piped and not (self._task or "").strip():
            raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
        return attached(self._images)

    def _read(self, builder: AgentBuilder, image_urls: tuple[str, ...]) -> UserInput:
        if self._all_piped:
            return UserInput(None, stdin.read_task(), image_urls)
        return UserInput(self._task, piped_beside(builder, self._no_stdin), image_urls)
