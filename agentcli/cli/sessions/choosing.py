"""Let a user at the terminal pick a session, or one of their own messages to continue from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.cli.sessions.rows import age, session_facts, session_row
from agentcli.cli.user_paths import home, tilde_path
from agentcli.errors import NothingChosen, SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.events.conversation import live
from agentcli.sessions import inbox
from agentcli.sessions.finder import FoundSession, newest_events, no_session, offered
from agentcli.ui.choices import Choice, Preview, aligned
from agentcli.ui.picker import Picked, Question, pick
from agentcli.ui.summary import count
from agentcli.ui.text import Span

_TITLE = 300
"""How many characters of a message its row shows; the search covers the whole message."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place to continue from; `event_id` is the last event to keep. The place is just before a
    `message` of the user, just after the task (which can't be taken back), or at the end, where
    there is no message. `answer` is the agent's last reply to the message, and `steps` is the
    number of steps taken since."""

    event_id: int
    message: MessageAction | None
    answer: str
    steps: int
    is_task: bool = False


def choose_message(
    events: Sequence[Event], question: Question, *, with_end: bool = False
) -> Picked[int]:
    """Return the last event to keep and the text to send next; the picker starts with the chosen
    message, so that it can be reworded. `with_end` also offers to keep everything. Raises
    UsageError when nothing is chosen."""
    picked = choose_place(events, question, with_end=with_end)
    return Picked(picked.value.event_id, picked.message)


def choose_place(
    events: Sequence[Event], question: Question, *, with_end: bool = False
) -> Picked[Place]:
    """Like `choose_message`, but returns the place, with the chosen message."""
    found = places(events)
    if not found:
        raise UsageError("nothing has been said in this session yet")
    if with_end:
        found.insert(0, Place(events[-1].id, None, found[0].answer, 0))
    picked = pick(question, _choices(found), _preview)
    if picked is None:
        raise NothingChosen
    return picked


def places(events: Sequence[Event]) -> list[Place]:
    """Return a place for each message of the user in the current conversation, newest first."""
    found: list[Place] = []
    answer, steps = "", 0
    for event in reversed(live(events)):
        if event.reply is not None and event.reply.index == 0:
            steps += 1
        if not isinstance(event, MessageAction):
            continue
        if event.source is Source.AGENT:
            answer = answer or event.content
        elif event.source is Source.USER:
            found.append(Place(event.id - 1, event, answer, steps))
            answer = ""
    if found:
        found[-1] = replace(found[-1], event_id=found[-1].event_id + 1, is_task=True)
    return found


def _choices(found: Sequence[Place]) -> list[Choice[Place]]:
    facts = [
        [
            Span(age(place.message.timestamp) if place.message else "now", "dim"),
            Span(f"{count(place.steps, 'step')} since", "dim"),
        ]
        for place in found
    ]
    return [
        Choice(
            place,
            title=said[:_TITLE] if place.message else "all of it, as it is now",
            facts=line,
            name="the task" if place.is_task else "",
            hidden=said,
            draft="" if place.is_task else said,
        )
        for place, line in zip(found, aligned(facts, right=(0, 1)), strict=True)
        for said in [place.message.content if place.message else ""]
    ]


def _preview(place: Place) -> Preview:
    if place.message is None:
        return Preview(f"at event {place.event_id}, the end", [("agent", place.answer)])
    where = "just after the task" if place.is_task else "just before this message"
    when = f"{place.message.timestamp.astimezone():%Y-%m-%d %H:%M:%S}"
    said = [("you", place.message.content), ("agent", place.answer)]
    return Preview(
        f"at event {place.event_id}, {where} of {when}", [each for each in said if each[1]]
    )


_OVER = frozenset({"finished", "awaiting_user_input"})
"""States in which a session can only continue with a new message from the user."""


def choose_session(
    workspace: Path | None, *, can_wait: bool = False, besides: Path | None = None
) -> Picked[Path]:
    """Return the folder of the session that the user picks and the message to send to it;
    `besides` is not offered. For a session with nothing left to do, the message may be empty only
    if it `can_wait`. Raises UsageError when nobody is at the terminal, there is nothing to choose
    from, or nothing is chosen."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "which session?", hint="agent resume --last, or an id from: agent sessions list"
        )
    found = [each for each in offered(home(), workspace) if each.folder != besides]
    if not found and besides is not None:
        raise UsageError("there is no other session here", hint="for those of all folders: --all")
    if not found:
        raise no_session(workspace)

    question = Question("resume which session? ", "resumes it", "sends that and resumes it")
    choices = [
        session_row(
            each,
            facts,
            with_place=workspace is None,
            needs_message=not can_wait
            and (each.state.agent_state in _OVER and not inbox.waiting(each.folder)),
        )
        for each, facts in zip(found, session_facts(found), strict=True)
    ]
    picked = pick(question, choices, preview)
    if picked is None:
        raise NothingChosen
    return Picked(picked.value.folder, picked.message)


def preview(found: FoundSession) -> Preview:
    """Return a preview of a session: its name, its folder and the last messages."""
    state = found.state
    name = f"{state.name} · " if state.name else ""
    heading = f"{name}{tilde_path(state.workspace)} · {found.folder.name} · {state.model}"
    said: dict[Source, str] = {}
    with suppress(SessionError, OSError, ValueError):
        for event in _newest_first(newest_events(found.folder, state)):
            if isinstance(event, MessageAction) and event.source is not Source.ENVIRONMENT:
                said.setdefault(event.source, event.content)
            if len(said) == 2:
                break
    speakers = {Source.USER: "you", Source.AGENT: "agent"}
    return Preview(
        heading, [(speaker, said[who]) for who, speaker in speakers.items() if who in said]
    )


def _newest_first(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the newest events first, without those that a rewind took back. Unlike
    `live.newest_first`, this works on any stretch of events."""
    last = events[-1].id if events else -1
    for event in reversed(events):
        if event.id > last:
            continue
        if isinstance(event, RewindAction) and event.conversation:
            last = event.to_event
        else:
            yield event
