"""Show a recorded session: as it looked, a single event, everything in full, or replayed."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import MessageAction, is_user_message
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.progress import Notice, Status
from agentcli.ui.outputs import FOLDED, UNFOLDED, Folding
from agentcli.ui.renderer import TerminalRenderer
from agentcli.ui.text import Colors

KeptOutput = Callable[[str], str | None]
"""Returns a whole output by the name of its file, or None if that file is gone."""


def render_conversation(events: Iterable[Event], stream: TextIO, folding: Folding = FOLDED) -> None:
    """Show stored events as they looked when they happened, without live rows."""
    _show(events, TerminalRenderer(stream, show_text=True, static=True, folding=folding))


def transcript(
    events: Iterable[Event], kept_output: KeptOutput, *, width: int, colors: Colors
) -> str:
    """Return a whole session with nothing folded, for a pager that is `width` columns wide and
    supports colours unless `colors` is none."""
    text = io.StringIO()
    folding = replace(UNFOLDED, kept_output=kept_output)
    renderer = TerminalRenderer(
        text, width=width, colors=colors, show_text=True, static=True, folding=folding
    )
    _show(events, renderer)
    return text.getvalue()


def render_event(
    events: Sequence[Event], number: int, kept_output: KeptOutput, stream: TextIO
) -> None:
    """Show one event in full; if it belongs to a call, all of the call. Raises IndexError."""
    renderer = TerminalRenderer(
        stream,
        show_text=True,
        static=True,
        verbose=2,
        folding=replace(UNFOLDED, kept_output=kept_output),
    )
    event = events[number]
    starts = (e for e in reversed(events[:number]) if isinstance(e, SessionStartedObservation))
    if started := next(starts, None):
        renderer.begin_session(started)
    renderer.on_progress(Notice(f"event {event.id} · {event.timestamp.astimezone():%F %T}"))
    call = list(events_of_call(events, number))
    is_said = isinstance(event, MessageAction) and event.source is not Source.ENVIRONMENT
    if call == [event] and event.message and not is_said and not _is_call(event):
        text = getattr(event, "content", "") or getattr(event, "summary", "")
        more = f"\n{text}" if text and text != event.message else ""
        renderer.on_progress(Notice(f"{event.message}{more}"))
    else:
        _show(call, renderer)


def _is_call(event: Event) -> bool:
    return isinstance(event, Action) and event.runnable


def events_of_call(events: Sequence[Event], number: int) -> Iterator[Event]:
    """Yield the event with that number; if it is part of a call, all events of the call. Raises
    IndexError."""
    event = events[number]
    answers = isinstance(event, Observation) and event.cause is not None
    call = events[event.cause or 0] if answers else event
    if not _is_call(call):
        yield event
        return
    yield call
    yield from (later for later in events[call.id + 1 :] if later.cause == call.id)


def _show(events: Iterable[Event], renderer: TerminalRenderer) -> None:
    for event in events:
        renderer.on_event(event)
    renderer.close()


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
        begins_step = event.reply is not None and event.reply.index == 0
        is_next_step = before is not None and (begins_step or is_user_message(event))
        if pace.wait_for_key is not None and is_next_step:
            renderer.pause()
            if not pace.wait_for_key(f"event {event.id}"):
                break
        if before is not None:
            # Show the work in between, if the log records it.
            if isinstance(before, Action) and before.runnable:
                renderer.on_progress(Status("running", before.message))
            elif isinstance(before, Observation | MessageAction):
                renderer.on_progress(Status("thinking"))
            _wait(renderer, before, event, pace.speed)
        renderer.on_event(event)
        before = event
    renderer.close()


def _wait(renderer: TerminalRenderer, before: Event, event: Event, speed: float) -> None:
    if not speed:
        return
    passed = (event.timestamp - before.timestamp).total_seconds()
    end = time.monotonic() + min(max(passed, 0.0), _LONGEST_WAIT_S) / speed
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _TICK_S))
        renderer.tick()
