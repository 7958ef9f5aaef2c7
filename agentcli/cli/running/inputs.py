"""What a user says to a run: words on the command line and piped text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import RequirementSpec
from agentcli.cli.running import stdin
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.ui.text import say_note


class Opening(Protocol):
    """A new session, or an old one to continue."""

    def workspace(self, folder: str | None) -> Path:
        """Return the folder to work in; `folder` is the value of -C."""

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        """Return the session, with what the user said recorded in it."""

    def read(self, builder: AgentBuilder) -> UserInput:
        """Return what the user says, for whoever opens the session. Raises UsageError."""


@dataclass(frozen=True)
class UserInput:
    """What a user says to a session. `message` is what the command line says; if it is None,
    stdin is the whole message. `piped` is what came through stdin; if it is None, nothing is said
    and the session just continues. Images are data URLs."""

    message: str | None = None
    piped: stdin.Piped | None = None
    image_urls: tuple[str, ...] = ()

    def record(
        self, builder: AgentBuilder, opened: OpenSession, required: RequirementSpec | None
    ) -> None:
        """Record this in the session, which is closed if that fails. `required` is what the work
        must come to."""
        with opened.closed_on_failure():
            if self.piped is None:
                opened.require(required)
                return
            outputs, limit = opened.session.outputs, builder.settings.input.stdin_max_bytes
            text = stdin.with_piped(self.message, self.piped, outputs, limit)
            opened.say(text, self.image_urls, self.message or "", required)

    def copied(self) -> UserInput:
        """Copy this for another process; sharing a file would mean sharing its read position."""
        return replace(self, piped=self.piped and self.piped.copied())


def piped_beside(builder: AgentBuilder, no_stdin: bool) -> stdin.Piped:
    if no_stdin or not stdin.is_piped():
        return stdin.Piped()
    waits = builder.settings.input
    return stdin.read_beside_task(waits.stdin_notice_s, waits.stdin_limit_s, say_note)
