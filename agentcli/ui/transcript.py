"""Show a recorded session to people: as it looked, a single event, or everything in full."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.progress import Notice
from agentcli.ui.folding import FOLDED, UNFOLDED, Folding
from agentcli.ui.style import Colors
from agentcli.ui.terminal import TerminalRenderer

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
    _show(
        events,
        TerminalRenderer(
            text, width=width, colors=colors, show_text=True, static=True, folding=folding
        ),
    )
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
    if call == [event] and (text := _text(event)):
        renderer.on_progress(Notice(text))
    else:
        _show(call, renderer)


def _text(event: Event) -> str:
    """Return the text of an event that is neither a call nor a visible message; "" for those."""
    if isinstance(event, MessageAction) and event.source is not Source.ENVIRONMENT:
        return ""
    if isinstance(event, Action) and event.runnable:
        return ""
    text = getattr(event, "content", "") or getattr(event, "summary", "")
    return f"{event.message}\n{text}" if text and text != event.message else event.message


def events_of_call(events: Sequence[Event], number: int) -> Iterator[Event]:
    """Yield the event with that number; if it is part of a call, all events of the call. Raises
    IndexError."""
    event = events[number]
    call = (
        events[event.cause] if isinstance(event, Observation) and event.cause is not None else event
    )
    if not (isinstance(call, Action) and call.runnable):
        yield event
        return
    yield call
    yield from (later for later in events[call.id + 1 :] if later.cause == call.id)


def _show(events: Iterable[Event], renderer: TerminalRenderer) -> None:
    for event in events:
        renderer.on_event(event)
    renderer.close()
