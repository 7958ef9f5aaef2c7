"""A person at the terminal picks the session to go on with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from agentcli.cli.session_common import home
from agentcli.errors import NothingChosen, SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.sessions import inbox
from agentcli.sessions.search.finder import (
    FoundSession,
    in_use_by,
    newest_events,
    no_session,
    offered,
)
from agentcli.system.programs import person_environ
from agentcli.ui.choices import Choice, Preview, aligned
from agentcli.ui.picker import Picked, Question, pick
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.style import Span, Style
from agentcli.ui.summary import ago, count, money

_STYLES: dict[str, Style] = {"failed": "red", "finished": "green"}
_OVER = frozenset({"finished", "rejected", "awaiting_user_input"})
"""States in which there is nothing to go on with but what the person says."""


def choose_session(
    workspace: Path | None, *, can_wait: bool = False, besides: Path | None = None
) -> Picked[Path]:
    """The folder of the session that the person picks, none of which is `besides`, and what is to
    be done next in it; that can be nothing where nothing is left to do only if it `can_wait`.
    Raises UsageError when there is no person, nothing to choose from, or nothing chosen."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "which session?", hint="agent resume --last, or an id of: agent sessions list"
        )
    found = [each for each in offered(home(), workspace) if each.folder != besides]
    if not found and besides is not None:
        raise UsageError("there is no other session here", hint="those of all folders: --all")
    if not found:
        raise no_session(workspace)

    question = Question("resume which session? ", "resumes it", "sends that and resumes it")
    choices = session_choices(found, with_place=workspace is None, can_wait=can_wait)
    picked = pick(question, choices, preview)
    if picked is None:
        raise NothingChosen
    return Picked(picked.value.folder, picked.message)


def session_choices(
    found: Sequence[FoundSession], *, with_place: bool, can_wait: bool
) -> list[Choice[FoundSession]]:
    """A row for each session, with the folder it works in where they are of several."""
    facts = aligned([_facts(each) for each in found], right=(0, 2, 3))
    return [
        Choice(
            each,
            title=each.state.title,
            facts=line,
            name=each.state.name or "",
            place=_place(each) if with_place else "",
            hidden=each.folder.name,
            needs_message=not can_wait and _is_over(each),
        )
        for each, line in zip(found, facts, strict=True)
    ]


def preview(found: FoundSession) -> Preview:
    """Name and place of a session, and what was said last in it."""
    state = found.state
    name = f"{state.name} · " if state.name else ""
    heading = f"{name}{_place(found)} · {found.folder.name} · {state.model}"
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
    """Without what a person took back. Unlike `live.newest_first` for any stretch of events."""
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


def _facts(found: FoundSession) -> list[Span]:
    state = found.state
    used = datetime.fromisoformat(state.updated_at).astimezone(UTC)
    pid = in_use_by(found.folder)
    ended = _ended(found)
    status = Span(f"in use by {pid}", "yellow") if pid else Span(ended, _STYLES.get(ended, ""))
    cost = "$?" if state.cost_usd is None else money(state.cost_usd)
    age = ago((datetime.now(UTC) - used).total_seconds())
    return [
        Span(age, "dim"),
        status,
        Span(count(state.iteration, "step"), "dim"),
        Span(cost, "dim"),
    ]


def _ended(found: FoundSession) -> str:
    return how_it_ended(found.state.agent_state, found.state.exit_code)


def _place(found: FoundSession) -> str:
    folder, user_home = found.state.workspace, person_environ().get("HOME", "")
    if user_home and folder.startswith(f"{user_home}/"):
        return f"~{folder.removeprefix(user_home)}"
    return folder
