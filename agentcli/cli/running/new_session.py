"""A new session, as `agent run` begins it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.attachments import attached
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import requirement_spec
from agentcli.cli.flags import Flags
from agentcli.cli.running import stdin
from agentcli.cli.running.inputs import UserInput, piped_beside
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.errors import UsageError
from agentcli.sessions.finder import free_name


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
