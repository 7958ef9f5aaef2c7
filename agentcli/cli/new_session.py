"""A new session, as `agent run` begins it."""

from __future__ import annotations

from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.config import resolve_workspace
from agentcli.app.open_session import OpenSession
from agentcli.cli import stdin
from agentcli.cli.flags import Flags
from agentcli.cli.inputs import attached, message_text, piped_beside
from agentcli.cli.outcome import OutcomeReporter
from agentcli.errors import UsageError
from agentcli.sessions.manage.naming import checked_name, require_free


class NewSession:
    """A new session for a task from the arguments, from stdin, or from both."""

    def __init__(self, task: str | None, flags: Flags, name: str | None) -> None:
        self._task = task
        self._no_stdin = flags.no_stdin
        self._name = name
        self._images = flags.images or ()

    def workspace(self, folder: str | None) -> Path:
        return resolve_workspace(folder)

    def _checked_name(self, builder: AgentBuilder) -> str | None:
        if self._name is None:
            return None
        name = checked_name(self._name)
        require_free(builder.home, name)
        return name

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
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
            opened = builder.create(outcome.subscribers, name, ready)
            with opened.closed_on_failure():
                opened.say(message_text(builder, opened, task, piped), image_urls, task or "")
        return opened
