"""Let a user at the terminal pick the session to continue."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.cli.sessions.rows import session_facts, session_row
from agentcli.cli.user_paths import home, tilde_path
from agentcli.errors import NothingChosen, SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.sessions import inbox
from agentcli.sessions.search.finder import (
    FoundSession,
    newest_events,
    no_session,
    offered,
)
from agentcli.ui.choices import Preview
from agentcli.ui.picker import Picked, Question, pick

_OVER = frozenset({"finished", "rejected", "awaiting_user_input"})
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
            needs_message=not can_wait and _is_over(each),
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


def _is_over(found: FoundSession) -> bool:
    return found.state.agent_state in _OVER and not inbox.waiting(found.folder)
