"""Show a new session only once its task is recorded, so that it can be resumed."""

from __future__ import annotations

from typing import Protocol

from agentcli.events import Event, Progress
from agentcli.events.actions import is_user_message
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.progress import Notice


class Follower(Protocol):
    def on_event(self, event: Event) -> None: ...
    def on_progress(self, progress: Progress) -> None: ...


class DelayedFollower:
    """Passes on to `follower` what happens in a new session, starting once its task is recorded. So
    whoever reads the session's id there finds a session that has its task."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._held: list[Event | Notice] | None = []

    def on_event(self, event: Event) -> None:
        if self._held is None:
            self._follower.on_event(event)
            return
        self._held.append(event)
        if is_user_message(event):
            self._pass_on(self._held)

    def on_progress(self, progress: Progress) -> None:
        if self._held is not None and isinstance(progress, Notice):
            self._held.append(progress)
        else:
            # Other progress is momentary, so there is no point in keeping it.
            self._follower.on_progress(progress)

    def give_up(self) -> None:
        """Pass on what was held back, except the start: there will be no such session."""
        held = self._held or []
        self._pass_on([what for what in held if not isinstance(what, SessionStartedObservation)])

    def _pass_on(self, held: list[Event | Notice]) -> None:
        self._held = None
        for what in held:
            if isinstance(what, Event):
                self._follower.on_event(what)
            else:
                self._follower.on_progress(what)
