"""The past: recall (this session), session_search (earlier ones), memory (notes for later)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal

from agentcli.errors import ToolError, UsageError
from agentcli.events import Action, Event, Observation
from agentcli.events.actions import (
    CondensationAction,
    CondensationRequestAction,
    MemoryAction,
    MessageAction,
    RecallAction,
    SystemMessageAction,
)
from agentcli.events.conversation import newest_first
from agentcli.events.observations import (
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    MemoryObservation,
    RecallObservation,
    SuccessObservation,
)
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult

_MOST_CHARS = 20_000
_MOST_HITS = 20
_HIT_CHARS = 200
_AROUND_CHARS = 200
"""Shown at least on each side of what is found within an event."""
_LOOK_AHEAD = 200
"""Events after a call that are searched for its result."""


class RecallArguments(ToolArguments):
    """Past events of this session by id, all words of query, or both. compact alone: sum up older
    work now, keeping what it names, for instance once a part of a long task is done."""

    event: int | None = None
    start: int | None = None
    query: str | None = None
    compact: str | None = None


def _recall(args: RecallArguments, ctx: ToolContext) -> ToolResult:
    event, recalled = args.event, {"recall_type": "event"}
    if event is not None:
        most = min(_MOST_CHARS, ctx.room_chars)
        text = _full_text(event, ctx)
        if args.query:
            return ToolResult(_passages(event, text, args.query, most), data=recalled)
        return ToolResult(_stretch(event, text, args, most), data=recalled)
    if args.query:
        return ToolResult(_hits(args.query, ctx), data=recalled)
    if args.compact is not None:
        return ToolResult("Older work is summed up before your next step.")
    raise ToolError("recall needs an event, a query or compact")


def _full_text(event_id: int, ctx: ToolContext) -> str:
    """Return an event's text, or a call with its result. Raises ToolError if there is none."""
    past = ctx.past
    if not 0 <= event_id < len(past):
        raise ToolError(f"There is no event {event_id}: the session has 0 to {len(past) - 1}.")
    event = past[event_id]
    text = _text(event)
    if isinstance(event, Action) and event.tool_call_metadata is not None:
        for later in range(event_id + 1, min(event_id + _LOOK_AHEAD, len(past))):
            if past[later].cause == event_id and (result := _text(past[later])):
                aged = _aged(past[later], past)
                return f"{text}\n\nResult, event {later}:{aged}\n{result}"
    if aged := _aged(event, past):
        return f"{aged.strip()}\n{text}"
    return text or f"(a {event.kind} event without text)"


def _aged(event: Event, past: Sequence[Event]) -> str:
    """Return a note when this session changed a file after `event` had read it."""
    if not isinstance(event, FileReadObservation):
        return ""
    changes = (FileEditObservation, FileWriteObservation)
    for later in takewhile(lambda later: later.id > event.id, newest_first(past)):
        if isinstance(later, changes) and later.path == event.path:
            return f" [as it was then; event {later.id} changed the file since]"
    return ""


def _text(event: Event) -> str:
    if isinstance(event, MessageAction | SystemMessageAction):
        return event.content
    if isinstance(event, CondensationAction):
        return event.summary or ""
    if isinstance(event, Action) and event.tool_call_metadata is not None:
        call = event.tool_call_metadata
        return f"{call.function_name} {call.raw_arguments}"
    return event.content if isinstance(event, Observation) else ""


def _stretch(event_id: int, text: str, args: RecallArguments, most: int) -> str:
    """Return at most `most` characters of `text` from the requested one to the end of a line, and
    what is left."""
    start = max(args.start or 0, 0)
    if start and start >= len(text):
        raise ToolError(f"Event {event_id} has {len(text):,} characters.")
    end = start + most
    if end >= len(text):
        return text[start:]
    end = max(text.rfind("\n", start + 1, end) + 1, 0) or end
    return (
        f"{text[start:end]}\n[Characters {start:,} to {end:,} of {len(text):,}; "
        f"the next: event={event_id}, start={end}]"
    )


def _passages(event_id: int, text: str, query: str, most: int) -> str:
    """Return the parts of `text` around the lines that have all words of `query`, or any of them if
    no line has all; as many as fit into `most` characters."""
    words = query.casefold().split()
    wanted: dict[bool, list[int]] = {True: [], False: []}
    at = 0
    for line in text.splitlines(keepends=True):
        found = [where for word in words if (where := line.casefold().find(word)) >= 0]
        if found:
            wanted[len(found) == len(words)].append(at + min(*found, len(line) - 1))
        at += len(line)
    places = wanted[True] or wanted[False]
    if not places:
        raise ToolError(f"Event {event_id} ({len(text):,} characters) has none of: {query}")
    parts: list[str] = []
    shown_to = left = 0
    for place in places:
        if place < shown_to:
            continue
        begin = max(
            text.rfind("\n", 0, max(place - _AROUND_CHARS, 0)) + 1, place - 2 * _AROUND_CHARS
        )
        begin = max(begin, shown_to)
        end = text.find("\n", place + _AROUND_CHARS, place + 2 * _AROUND_CHARS) + 1
        end = end or min(place + 2 * _AROUND_CHARS, len(text))
        if end - begin > most:
            left += 1
            continue
        parts.append(f"[from {begin:,}]\n" * (begin > shown_to or not parts) + text[begin:end])
        most -= end - begin
        shown_to = end
    told = f"; {left} more places: use more words" if left else ""
    return f"{''.join(parts)}\n[Parts of {len(text):,} characters; start= goes on from one{told}]"


def _hits(query: str, ctx: ToolContext) -> str:
    """Return one line for each of the newest events that contain all words of `query`."""
    words = query.casefold().split()
    if not words:
        raise ToolError("The query has no words.")
    lines: list[str] = []
    for event in newest_first(ctx.past):
        text = _text(event)
        folded = text.casefold()
        if _says_again(event) or not all(word in folded for word in words):
            continue
        if len(lines) == _MOST_HITS:
            lines.append("… and older ones: use more words")
            break
        who = event.source if isinstance(event, MessageAction) else event.kind
        lines.append(f"event {event.id} ({who}): {_excerpt(text, folded.find(words[0]))}")
    return "\n".join(lines) or f"No event of this session has all of: {query}"


def _excerpt(text: str, found: int) -> str:
    """Return one line of `text` around a position, beginning with a whole word."""
    start = max(found - _HIT_CHARS // 4, 0)
    if start:
        start = min(text.find(" ", start - 1, found) + 1 or found, found)
    line = " ".join(text[start : start + _HIT_CHARS].split())
    return f"… {line}" if start else line


def _says_again(event: Event) -> bool:
    """Whether `event` only repeats others: a summary, or an earlier use of this tool."""
    if isinstance(event, CondensationAction):
        return True
    by_model = isinstance(event, RecallAction) and event.tool_call_metadata is not None
    return by_model or (isinstance(event, RecallObservation) and event.recall_type == "event")


def _action(event: int | None, query: str | None, compact: str | None, **other: Any) -> Action:
    if event is None and compact is not None and not query:
        return CondensationRequestAction(focus=compact)
    return RecallAction(recall_type="event", query=(query or "") if event is None else str(event))


def _observation(content: str, **recalled: Any) -> Observation:
    if not recalled:
        return SuccessObservation(content=content)
    return RecallObservation(content=content, **recalled)


RECALL = Tool(
    name="recall",
    arguments=RecallArguments,
    effect=Effect.READ,
    switch="tools.enable_recall",
    run=_recall,
    to_action=_action,
    to_observation=_observation,
)


class SearchArguments(ToolArguments):
    """Search earlier sessions for words (all must occur), "phrases", beginnings*."""

    query: str


def _session_search(args: SearchArguments, ctx: ToolContext) -> ToolResult:
    if ctx.search_sessions is None:
        raise ToolError("Earlier sessions can't be searched.", error_id="search_off")
    try:
        return ToolResult(ctx.search_sessions(args.query), data={"recall_type": "session"})
    except UsageError as error:
        raise ToolError(f"{error.message}. {error.hint}", error_id="bad_query") from error


SESSION_SEARCH = Tool(
    name="session_search",
    arguments=SearchArguments,
    effect=Effect.READ,
    switch="knowledge.session_search",
    run=_session_search,
    to_action=lambda query: RecallAction(recall_type="session", query=query),
    to_observation=RecallObservation,
)


class MemoryArguments(ToolArguments):
    """Short notes for later sessions, not on this task: facts on the project (memory), or what the
    user wants known in all (user: they are asked). old: a unique part of the note to change."""

    command: Literal["add", "replace", "remove"]
    target: Literal["memory", "user"] = "memory"
    text: str = ""
    old: str = ""


def _memory(args: MemoryArguments, ctx: ToolContext) -> ToolResult:
    notes = ctx.notes
    if notes is None:
        raise ToolError("Notes are switched off.", error_id="notes_off")
    if args.command == "add":
        kept = notes.add(args.target, args.text)
    elif args.command == "replace":
        kept = notes.replace(args.target, args.old, args.text)
    else:
        kept = notes.remove(args.target, args.old or args.text)
    count = len(kept.entries)
    told = f"Kept for later sessions: {count} {'note' if count == 1 else 'notes'}, "
    told += f"{kept.left:,} characters left."
    if kept.backup is not None:
        told += f" The file had been changed meanwhile; as it was: {kept.backup}"
    changed = {"path": str(kept.path), "added": kept.added, "removed": kept.removed}
    return ToolResult(told, data={"target": args.target, "entries": count, **changed})


def _memory_action(text: str, old: str, **given: Any) -> MemoryAction:
    return MemoryAction(text=text or old, **given)


# A write, because a note influences later sessions.
MEMORY = Tool(
    "memory",
    MemoryArguments,
    Effect.WRITE,
    _memory,
    _memory_action,
    MemoryObservation,
    switch="agent.notes",
)

TOOL = (MEMORY, RECALL, SESSION_SEARCH)
