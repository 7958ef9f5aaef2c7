"""Replay a recorded session with the renderer that shows running sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from agentcli.events import Action, Event, Observation
from agentcli.events.actions import MessageAction, is_user_message
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.progress import Notice, Status
from agentcli.ui.terminal import TerminalRenderer

_LONGEST_WAIT_S = 3.0
"""Longest wait between two events at speed 1, so that the user's own pauses are not replayed."""
_TICK_S = 0.1


@dataclass(frozen=True)
class Pace:
    """How fast to replay. `speed` is a multiple of the original speed, or 0 for no waits.
    `wait_for_key`, if not None, is called before each step with a line that names it, and returns
    whether to go on."""

    speed: float = 0.0
    wait_for_key: Callable[[str], bool] | None = None


def play(events: Iterable[Event], first: int, last: int | None, stream: TextIO, pace: Pace) -> None:
    """Show the events `first` to `last` on `stream`. Earlier ones are read but not shown."""
    renderer = TerminalRenderer(stream, show_text=True, echoes=True)
    before: Event | None = None
    for event in events:
        if last is not None and event.id > last:
            break
        if event.id < first:
            if isinstance(event, SessionStartedObservation):
                renderer.begin_session(event)
            continue
        if pace.wait_for_key is not None and _begins_step(event, before):
            renderer.pause()
            if not pace.wait_for_key(f"event {event.id}"):
                break
        if before is not None:
            for status in _meanwhile(before):
                renderer.on_progress(status)
            _wait(renderer, before, event, pace.speed)
        renderer.on_event(event)
        before = event
    renderer.close()


def _begins_step(event: Event, before: Event | None) -> bool:
    """Return whether a reply of the model or a message of the user begins here, after the first
    event shown."""
    begins_reply = event.reply is not None and event.reply.index == 0
    return before is not None and (begins_reply or is_user_message(event))


def _meanwhile(before: Event) -> Iterator[Status | Notice]:
    """Yield what went on after `before`, as far as the log tells."""
    if isinstance(before, Action) and before.runnable:
        yield Status("running", before.message)
    elif isinstance(before, Observation | MessageAction):
        yield Status("thinking")


def _wait(renderer: TerminalRenderer, before: Event, event: Event, speed: float) -> None:
    if not speed:
        return
    passed = (event.timestamp - before.timestamp).total_seconds()
    end = time.monotonic() + min(max(passed, 0.0), _LONGEST_WAIT_S) / speed
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _TICK_S))
        renderer.tick()
