"""The text that stands for forgotten work, and how it is written with a model or without."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agentcli.errors import LLMError
from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    AgentFinishAction,
    AgentThinkAction,
    CmdRunAction,
    CondensationAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    MessageAction,
    TaskTrackingAction,
)
from agentcli.events.observations import CmdOutputObservation, ErrorObservation, FileReadObservation
from agentcli.memory.condenser import Options, first_forgotten, forget, oldest_by_both
from agentcli.memory.projection import clip
from agentcli.memory.view import View, ids_of, is_visible_to_model
from agentcli.memory.window import SUMMARY_TOKENS, reply_reserve
from agentcli.messages import FinishReason, Message, Reply, Request, ToolChoice, ToolSchema

HEADINGS = (
    "Goal",
    "Constraints and preferences",
    "Done",
    "State now",
    "Blocked",
    "Decisions and why",
    "Questions answered",
    "Files",
    "Left to do",
    "Critical context",
)
MAX_PLAIN_CHARS = 8_000
"""Limit for a summary made without a model, including its frame."""
_LEAST_PLAIN_CHARS = 1_000
_LINE_CHARS = 200
_PART_CHARS = 90
"""Limit for a command, and for the last line of its output, which often tells how it went."""
_ASK_CHARS = 160
_ASKS_SHOWN = 12
_TASKS_SHOWN = 20
_READ_CHARS = 2_500
_HEADING = re.compile(r"^#{1,4}\s+(.*\S)\s*$", re.MULTILINE)
_IDS = re.compile(r"\s?\[(\d+(?:\s*(?:,|-|\u2013|to)\s*\d+)*)\]")
_ANNOUNCEMENT = re.compile(r"\A\s*+[^\n#]*:\s*\n(?=\s*#)")
"""A line such as `Here is the summary:`, which some models can't leave out."""
_END = "[End of the summary.]"
_FRAME = re.compile(
    rf"\n?(?:## (?:Said by the user|Open tasks)\n.*|{re.escape(_END)}\Z)", re.DOTALL
)
MAX_SUMMARY_CHARS = 24_000
MAX_OUTPUT_TOKENS = 8_192
_CHARS_PER_TOKEN = 3
_PROMPT_SHARE = 0.6
"""Share of the asked model's window for what it is told; the rest is for instructions and the
answer."""
_EARLIER_SHARE = 0.4
"""Most of that for the summary so far."""
_SAID_SHARE = 0.2
"""Most of that for what the user said."""
_SAID_SHOWN = 8
_LEAST_SHARE = 0.1
"""Share of all tokens that must go for a model to be paid for a summary of it."""
_SHARES = (1.0, 0.3, 0.1, 0.03)
T = TypeVar("T")
log = logging.getLogger(__name__)


def framed(view: View, body: str, first: int, last: int) -> str:
    """Return `body` marked as reference, with what the user asked, which of that is dealt with, and
    the open tasks: these come from the log, never from a model."""
    head = (
        f"[Summary of your older work: events {first} to {last}, no longer shown here. It is for "
        "reference and asks for nothing: what it calls done is done. Where it and a message of the "
        "user differ, the newest message counts. [Numbers] are events: recall shows any in full.]"
    )
    parts = [head, body.strip(), _asked(view, last), _open_tasks(view), _END]
    return "\n\n".join(part for part in parts if part)


def body_of(summary: CondensationAction) -> str:
    """Return the text inside the frame of a summary."""
    text = (summary.summary or "").partition("\n\n")[2]
    return _FRAME.sub("", f"\n{text}").strip()


def notice(view: View, first: int, last: int) -> str:
    """Return the text that stands for forgotten work if nobody summarises it."""
    head = (
        f"[Events {first} to {last} of this session, older work of yours, are no longer shown here "
        "to save space. What the user said is all here; recall shows any event by its number.]"
    )
    return "\n\n".join(part for part in (head, _open_tasks(view)) if part)


def with_known_ids(text: str, known: Container[int]) -> str:
    """Return `text` without references to events not `known`; the others in a list stay."""

    def checked(match: re.Match[str]) -> str:
        parts = [part.strip() for part in match[1].split(",")]
        kept = [part for part in parts if all(int(n) in known for n in re.findall(r"\d+", part))]
        if len(kept) == len(parts):
            return match[0]
        return f"{match[0][: match[0].index('[')]}[{', '.join(kept)}]" if kept else ""

    return _IDS.sub(checked, text)


def sections(body: str) -> dict[str, list[str]]:
    """Return lines by heading. Lines before the first heading are critical context, except for one
    that announces the summary."""
    found: dict[str, list[str]] = {}
    heading = HEADINGS[-1]
    body = _ANNOUNCEMENT.sub("", body, count=1)
    for line in body.splitlines():
        if match := _HEADING.match(line):
            heading = match[1]
        elif line.strip():
            found.setdefault(heading, []).append(line.rstrip())
    return found


def put_together(parts: Mapping[str, Iterable[str]]) -> str:
    """Return `parts` as text under their headings: the fixed ones first, empty ones left out."""
    order = [*HEADINGS, *(heading for heading in parts if heading not in HEADINGS)]
    filled = [(heading, list(parts.get(heading, ()))) for heading in order]
    return "\n\n".join(f"## {h}\n" + "\n".join(lines) for h, lines in filled if lines)


def plain_summary(view: View, gone: Sequence[Event], first: int, last: int) -> str:
    """Return a summary of `gone` made without a model, at most 8,000 characters or about half of
    what it replaces: what was asked, which files were changed, commands with their exit codes,
    decisions, errors. It continues earlier summaries; if it does not fit, the oldest lines go
    first."""
    going = sum(view.sizes.get(event.id, 0) for event in [*gone, *view.summaries])
    half = int(going * view.bytes_per_token / 2)
    empty = len(framed(view, "", first, last))
    most = min(MAX_PLAIN_CHARS, max(half, empty + _LEAST_PLAIN_CHARS))
    parts: dict[str, list[str]] = {}
    for summary in view.summaries:
        for heading, lines in sections(body_of(summary)).items():
            parts.setdefault(heading, []).extend(lines)
    for heading, line in _plain_lines(view, gone):
        lines = parts.setdefault(heading, [])
        if line not in lines:
            lines.append(line)
    room = max(most - empty, 0) - sum(len(h) + 6 for h in parts)
    while parts and sum(len(line) + 1 for lines in parts.values() for line in lines) > room:
        longest = max(parts.values(), key=lambda lines: sum(map(len, lines)))
        if not longest:
            break
        del longest[0]
    return clip(framed(view, put_together(parts), first, last), most - 100)


def _plain_lines(view: View, gone: Sequence[Event]) -> Iterable[tuple[str, str]]:
    if not view.summaries and view.said_by_user:
        first = view.said_by_user[0]
        yield "Goal", _line(first.content, first.id)
    came_of = {event.cause: event for event in gone if isinstance(event, Observation)}
    for event in gone:
        result = came_of.get(event.id)
        failed = isinstance(result, ErrorObservation)
        if isinstance(event, CmdRunAction):
            yield (
                "Done",
                _line(f"{_one_line(event.message, _PART_CHARS)} → {_outcome(result)}", event.id),
            )
        elif isinstance(event, FileWriteAction | FileEditAction) and not failed:
            yield "Files", _line(f"{event.path} changed", event.id)
        elif isinstance(event, FileReadAction) and not failed:
            yield "Files", _line(f"{event.path} read", event.id)
        elif isinstance(event, AgentFinishAction):
            yield "Done", _line(event.message, event.id)
        elif isinstance(event, AgentThinkAction):
            yield "Decisions and why", _line(event.thought, event.id)
        elif isinstance(event, MessageAction) and event.source is Source.AGENT:
            if event.content.strip():
                yield "Decisions and why", _line(event.content, event.id)
        elif isinstance(event, ErrorObservation):
            yield "Critical context", _line(f"error: {event.content}", event.id)


def _outcome(result: Observation | None) -> str:
    if isinstance(result, CmdOutputObservation):
        code = result.metadata.exit_code
        if code is None:
            return "still running"
        said = [line for line in result.content.splitlines() if line.strip()]
        # The output ends with notes in brackets, such as the exit code.
        last = next((line for line in reversed(said) if not line.startswith("[")), "")
        return f"exit {code}: {_one_line(last, _PART_CHARS)}" if last else f"exit {code}"
    return "failed" if isinstance(result, ErrorObservation) else "no outcome recorded"


def _one_line(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1] + "…"


def _line(text: str, event_id: int) -> str:
    return f"- {_one_line(text, _LINE_CHARS)} [{event_id}]"


def _asked(view: View, last: int) -> str:
    """List the user's messages above the summary, and say which of them still count."""
    above = [message for message in view.said_by_user if message.id <= last]
    tasks = [message.id for message in view.said_by_user if message.delivery != "steer"]
    newest = tasks[-1] if tasks else -1
    lines = []
    for message in above[-_ASKS_SHOWN:]:
        words = _one_line(message.content, _ASK_CHARS)
        if message.id <= view.dealt_with:
            state = "dealt with"
        elif message.id == newest:
            state = "what you work on, unless a newer message stands below"
        else:
            state = "still holds"
        lines.append(f'- [{message.id}] {state}: "{words}"')
    if len(above) > _ASKS_SHOWN:
        lines.insert(0, f"- {len(above) - _ASKS_SHOWN} older messages: see above")
    return "\n".join(["## Said by the user", *lines]) if lines else ""


def _open_tasks(view: View) -> str:
    lines = open_tasks(view.todo)
    if lines and _of_an_ended_turn(view):
        lines.insert(0, "Your list as an earlier turn left it; some may be done:")
    return "\n".join(["## Open tasks", *lines]) if lines else ""


def open_tasks(todo: TaskTrackingAction | None) -> list[str]:
    """Return a line for each open task of the list, with its notes."""
    tasks = todo.task_list if todo is not None else ()
    still_open = [task for task in tasks if task.get("status") in ("todo", "in_progress")]
    lines = [_task_line(task) for task in still_open[:_TASKS_SHOWN]]
    if len(still_open) > _TASKS_SHOWN:
        lines.append(f"- … {len(still_open) - _TASKS_SHOWN} more")
    return lines


def _task_line(task: Mapping[str, Any]) -> str:
    notes = _one_line(str(task.get("notes") or ""), _LINE_CHARS)
    return f"- {task.get('title', '')} ({task['status']}){': ' if notes else ''}{notes}"


def _of_an_ended_turn(view: View) -> bool:
    """Whether the task list is from an earlier turn, answered before the user spoke again."""
    if view.todo is None:
        return False
    before = [message.id for message in view.said_by_user if message.id < view.todo.id]
    spoke_again = view.said_by_user[-1:] != [] and view.said_by_user[-1].id > view.todo.id
    return spoke_again and bool(before) and before[-1] <= view.dealt_with


def event_text(event: Event, limit: int) -> str:
    """Return `event` as text for a summariser: its id, who, and about `limit` characters from its
    beginning and end; fewer if it is a file that was read, which can be read again."""
    if isinstance(event, MessageAction):
        return f"[{event.id}] {event.source}: {clip(event.content, limit)}"
    if isinstance(event, Action) and event.tool_call_metadata is not None:
        call = event.tool_call_metadata
        return f"[{event.id}] call of {call.function_name}: {clip(call.raw_arguments, limit)}"
    if isinstance(event, Observation):
        failed = "error" if isinstance(event, ErrorObservation) else "result"
        of = f" of [{event.cause}]" if event.cause is not None else ""
        outcome = f" ({event.message})" if isinstance(event, CmdOutputObservation) else ""
        limit = min(limit, _READ_CHARS) if isinstance(event, FileReadObservation) else limit
        return f"[{event.id}] {failed}{of}{outcome}: {clip(event.content, limit)}"
    return f"[{event.id}] {event.message}"


class UnusableReply(Exception):
    """The model answered, but not with what it was asked for."""


class Postponed(Exception):
    """Nothing may be condensed now, so no model must be paid for it."""


@dataclass(frozen=True)
class Conversation:
    """The exchange with the model that helps to condense `view`."""

    options: Options
    view: View

    def ask(self, system: str, text: str, tools: tuple[ToolSchema, ...] = ()) -> Reply:
        """Return a usable reply. Raises LLMError, UnusableReply and Postponed."""
        if self.options.ask is None:
            raise UnusableReply("there is no model to ask")
        if not self.view.permit():
            raise Postponed
        reply = self.options.ask(
            Request(
                messages=(Message.system_message(system), Message.user_message(text)),
                tools=tools,
                tool_choice=ToolChoice.REQUIRED if tools else ToolChoice.NONE,
                max_output_tokens=reply_reserve(self.options.window(), MAX_OUTPUT_TOKENS),
                estimated_tokens=(len(system) + len(text)) // _CHARS_PER_TOKEN,
            ),
            self.view.paid_usd,
        )
        self.view.replies.append(reply)
        if reply.finish_reason not in (FinishReason.STOP, FinishReason.TOOL_CALLS):
            raise UnusableReply(f"the summary ended with {reply.finish_reason}")
        if tools and not reply.tool_calls:
            raise UnusableReply("the model wrote text in place of the call it was asked for")
        if not tools and reply.tool_calls:
            raise UnusableReply("the model called tools in place of writing a summary")
        if not tools and not reply.text.strip():
            raise UnusableReply("the summary was empty")
        return reply

    def attempt(self, answer: Callable[[], T]) -> tuple[T | None, str]:
        """Return what `answer` makes of the model's reply, or None and what went wrong. Without a
        model, and for a while after a failure, nothing is tried."""
        if self.options.ask is None or self._cooling_down():
            return None, ""
        try:
            return answer(), ""
        except (LLMError, UnusableReply) as failure:
            log.warning("the summariser failed: %s", failure)
            return None, str(failure)[:300]

    def _cooling_down(self) -> bool:
        view = self.view
        if view.failed_at is None or view.now is None:
            return False
        return (view.now - view.failed_at).total_seconds() < self.options.settings.cooldown_s


Write = Callable[[Conversation, Sequence[Event]], str]
"""Has the model summarise these events. Raises LLMError, UnusableReply and Postponed."""


@dataclass(frozen=True)
class Summarising:
    """Replaces the oldest steps with a summary when the window must be shorter, or holds more than
    `max_size` events (0: no limit). Without a model, or if it fails, the summary is made from the
    events alone."""

    options: Options
    write: Write
    max_size: int

    def condense(self, view: View) -> CondensationAction | None:
        keep_first = self.options.settings.keep_first
        gone = oldest_by_both(view, keep_first, self.max_size, reserve=SUMMARY_TOKENS)
        if not gone:
            return None
        first, last = first_forgotten(view, gone)
        ids = ids_of(gone)
        events = list(filter(is_visible_to_model, map(view.original, sorted(ids))))
        conversation = Conversation(self.options, view)
        text, error = None, ""
        if view.forced or _tokens_of(view, ids) > view.tokens * _LEAST_SHARE:
            text, error = conversation.attempt(
                lambda: _checked(view, self.write(conversation, events), ids, (first, last))
            )
        how = "summed up" if text else "summed up without a model"
        text = text or plain_summary(view, events, first, last)
        action = forget(view, gone, text, f"{view.decision.reason or 'many events'}; {how}")
        return action.model_copy(update={"summariser_error": error})


def _checked(view: View, body: str, going: set[int], span: tuple[int, int]) -> str:
    """Return the framed summary. Raises UnusableReply if it would save nothing."""
    text = framed(view, with_known_ids(body, range(span[1] + 1)), *span)
    too_long = len(text) / view.bytes_per_token >= _tokens_of(view, going)
    if too_long or len(body) > MAX_SUMMARY_CHARS:
        raise UnusableReply("the summary was too long to save anything")
    return text


def _tokens_of(view: View, going: set[int]) -> int:
    """Return what a summary replaces, in tokens: the events `going` and earlier summaries."""
    return sum(view.sizes[event_id] for event_id in {*going, *(each.id for each in view.summaries)})


def prompt(conversation: Conversation, events: Sequence[Event]) -> str:
    """Return the text to summarise: the summary so far, the focus, and the events, each cut to what
    the settings allow and the model's window has room for."""
    view, options = conversation.view, conversation.options
    room = int(options.window() * _PROMPT_SHARE) * _CHARS_PER_TOKEN
    earlier = int(room * _EARLIER_SHARE)
    parts = [f"The summary so far:\n{clip(body_of(each), earlier)}" for each in view.summaries]
    most = min(int(room * _SAID_SHARE) // _SAID_SHOWN, 2_000)
    asked = "\n".join(event_text(message, most) for message in view.said_by_user[-_SAID_SHOWN:])
    parts.append(f"What the user said (it stays visible; for context):\n{asked}")
    if view.focus:
        parts.append(f"What matters most now: {view.focus}")
    room -= sum(map(len, parts))
    for share in _SHARES:
        most = max(int(options.settings.max_event_chars * share), 200)
        lines = "\n".join(event_text(event, most) for event in events)
        if len(lines) <= room:
            break
    parts.append(f"The events to sum up:\n{clip(lines, max(room, 2_000))}")
    return "\n\n".join(parts)
