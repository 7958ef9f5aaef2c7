"""Turns events into messages: pure, total, and legal for every provider whatever the history.

A tool result is only ever written after the reply that asked for it, so a result without a call is
impossible; a call without a result is given one. `PrefixCheck` looks whether each request begins
with the one before, so that the provider's prompt cache applies.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    CondensationAction,
    MessageAction,
    RewindAction,
    SystemMessageAction,
)
from agentcli.events.conversation import live, newest, newest_first
from agentcli.events.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    FileReadObservation,
    GitCleanupObservation,
    IPythonRunCellObservation,
    MCPObservation,
    PrefixChangedObservation,
    RecallObservation,
    ReplyDiscardedObservation,
    RequestAdaptedObservation,
    SessionStartedObservation,
    ToolResultObservation,
    UserRejectObservation,
)
from agentcli.messages import (
    SLACK_CHARS,
    Message,
    ProviderData,
    Request,
    Role,
    ToolCall,
    ToolSchema,
    common_start,
    lines_after,
    lines_before,
    without,
)

MAX_OBSERVATION_CHARS = 30_000
MAX_BOUNDED_CHARS = 120_000
"""Limit for observations whose tools have limits of their own and say what they left out; a further
cut could remove that note."""
MAX_MASKED_MESSAGE_CHARS = 8_000
MAX_ARGUMENT_CHARS = 200
"""Longest text that stays in an argument of a masked call."""
_MASK_HINT_CHARS = 120
_NO_RESULT = "Interrupted; its effect is unknown. Check before you repeat it."
_BOUNDED = (
    *(FileReadObservation, IPythonRunCellObservation, MCPObservation, BrowserOutputObservation),
)
_CUT_BY_TOOL = (*_BOUNDED, CmdOutputObservation, RecallObservation)
_WITH_IMAGES = (*_BOUNDED, ToolResultObservation)
_EXCUSES = (CondensationAction, RewindAction, RequestAdaptedObservation)


@dataclass
class _OpenReply:
    """A reply whose calls may still get results, with what has been said in the meantime."""

    id: str
    parts_missing: int
    text: str = ""
    provider_data: ProviderData | None = None
    prefix_changed: bool = False
    calls: dict[int, ToolCall] = field(default_factory=dict)
    results: dict[int, Message] = field(default_factory=dict)
    deferred_messages: list[Message] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        return not self.parts_missing and len(self.results) == len(self.calls)


class Projector:
    """Takes events one by one; `messages` only grows at its end, until a condensation or until
    something is dropped. Of replies before the event `changed_at`, what stood before them has
    changed since."""

    def __init__(self, changed_at: int = -1) -> None:
        self._changed_at = changed_at
        self._closed: list[Message] = []
        self._open: _OpenReply | None = None
        self._call_ids: set[str] = set()

    def feed(self, event: Event) -> None:
        if event.reply is not None:
            self._add_to_reply(event)
        elif isinstance(event, SystemMessageAction):
            self._say(Message.system_message(event.content))
        elif isinstance(event, MessageAction) and event.source is Source.AGENT:
            self._say(Message.assistant_message(event.content))
        elif isinstance(event, MessageAction):
            self._say(Message.user_message(event.content, event.image_urls))
        elif isinstance(event, ReplyDiscardedObservation):
            if self._open is not None and self._open.id == event.reply_id:
                self._closed += self._open.deferred_messages
                self._open = None
        elif isinstance(event, CondensationAction) and event.summary:
            self._say(Message.user_message(event.summary))
        elif isinstance(event, RequestAdaptedObservation):
            if event.drops:
                self._close()
                self._closed = [without(event.drops, message) for message in self._closed]
        elif isinstance(event, Observation):
            self._observe(event)

    def messages(self) -> list[Message]:
        """Return the conversation so far, with a result for every call."""
        if self._open is not None and self._open.answered:
            self._close()
        if self._open is None:
            return self._closed
        return [*self._closed, *_reply_messages(self._open)]

    def _add_to_reply(self, event: Event) -> None:
        assert event.reply is not None
        reply = self._open
        if reply is None or reply.id != event.reply.id:
            self._close()
            changed = event.id < self._changed_at
            reply = _OpenReply(event.reply.id, event.reply.total, prefix_changed=changed)
            self._open = reply
        reply.parts_missing -= 1
        if event.provider_data is not None:
            data = event.provider_data
            reply.provider_data = ProviderData(data.provider, data.items)
        if isinstance(event, MessageAction):
            reply.text = event.content
        elif isinstance(event, Action) and event.tool_call_metadata is not None:
            call = event.tool_call_metadata
            call_id = call.tool_call_id
            if call_id in self._call_ids:
                call_id = f"{call_id[:30]}_{event.id}"
            self._call_ids.add(call_id)
            written = call.written_arguments
            reply.calls[event.id] = ToolCall(
                call_id,
                call.written_name or call.function_name,
                call.raw_arguments if written is None else written,
            )
        elif isinstance(event, ErrorObservation):
            self._say(Message.user_message(event.content))

    def _observe(self, event: Observation) -> None:
        if isinstance(event, DecisionObservation):
            return
        reply = self._open
        if event.cause is not None and reply is not None and event.cause in reply.calls:
            call = reply.calls[event.cause]
            reply.results.setdefault(event.cause, _result(event, call))
        elif visible_without_call(event):
            self._say(Message.user_message(shown_text(event)))

    def _say(self, message: Message) -> None:
        if self._open is not None and not self._open.answered:
            self._open.deferred_messages.append(message)
            return
        self._close()
        self._closed.append(message)

    def _close(self) -> None:
        if self._open is not None:
            self._closed += _reply_messages(self._open)
            self._open = None


def project(events: Iterable[Event]) -> list[Message]:
    """Return the conversation that `events` amount to, without what is condensed."""
    alive = live(list(events))
    projector = Projector(changed_at(alive))
    for event in visible(alive):
        projector.feed(event)
    return list(projector.messages())


def changed_at(events: Iterable[Event]) -> int:
    """Return the id of the newest event that changed what is sent before it; -1 without any."""
    condensations = (event for event in events if isinstance(event, CondensationAction))
    changes = (e.id for e in condensations if e.forgotten_ids() or e.masked_event_ids)
    return max(changes, default=-1)


def visible(events: Sequence[Event], masked: Collection[int] = ()) -> Sequence[Event]:
    """Return the events that no condensation took out of sight; a summary goes where its range was.
    `masked` are events masked by condensations that are no longer among `events`."""
    condensations = [event for event in events if isinstance(event, CondensationAction)]
    if not condensations and not masked:
        return events
    forgotten = {event_id for action in condensations for event_id in action.forgotten_ids()}
    hidden = {*masked, *(i for action in condensations for i in action.masked_event_ids)}
    kept = [
        masked_event(event) if event.id in hidden else event
        for event in events
        if event.id not in forgotten and not isinstance(event, CondensationAction)
    ]
    for action in condensations:
        if action.summary and action.id not in forgotten:
            kept.insert(min(action.summary_offset or 0, len(kept)), action)
    return kept


def masked_event(event: Event) -> Event:
    """Return `event` with a note in place of its text: a short note for an observation, head and
    tail for a message, a note for each long argument of a call. The note names the event, so that
    the model can ask for it again."""
    if isinstance(event, MessageAction):
        if len(event.content) <= MAX_MASKED_MESSAGE_CHARS:
            return event
        shown = clip(event.content, MAX_MASKED_MESSAGE_CHARS)
        note = f"{shown}\n[The whole message is event {event.id}: recall shows it.]"
        return event.model_copy(update={"content": note})
    if isinstance(event, Action) and event.tool_call_metadata is not None:
        call = event.tool_call_metadata
        short = {"raw_arguments": _short_arguments(call.raw_arguments, event.id)}
        if call.written_arguments is not None:
            short["written_arguments"] = _short_arguments(call.written_arguments, event.id)
        return event.model_copy(update={"tool_call_metadata": call.model_copy(update=short)})
    if not isinstance(event, Observation):
        return event
    about = event.message.strip()[:_MASK_HINT_CHARS]
    note = (
        f"[{about} … {len(event.content):,} characters are left out here to save space; "
        f"recall shows event {event.id}.]"
    )
    without_images = {"image_urls": ()} if isinstance(event, _WITH_IMAGES) else {}
    return event.model_copy(update={"content": note, **without_images})


def _short_arguments(raw: str, event_id: int) -> str:
    """Return JSON arguments with a note in place of each long text; anything else unchanged."""
    try:
        arguments = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(arguments, dict):
        return raw
    note = "[{:,} characters are left out here; recall shows event {}.]"
    short = {
        name: note.format(len(value), event_id)
        if isinstance(value, str) and len(value) > MAX_ARGUMENT_CHARS
        else value
        for name, value in arguments.items()
    }
    return json.dumps(short, ensure_ascii=False)


def visible_without_call(event: Observation) -> bool:
    """Whether the model sees `event` although it is the result of no call."""
    if isinstance(event, GitCleanupObservation):
        return bool(event.content)
    is_error = isinstance(event, ErrorObservation) and event.cause is None
    return is_error or isinstance(event, RecallObservation)


def shown_text(event: Observation) -> str:
    """Return as much of the content of `event` as the model sees."""
    limit = MAX_BOUNDED_CHARS if isinstance(event, _CUT_BY_TOOL) else MAX_OBSERVATION_CHARS
    return clip(event.content, limit)


def clip(text: str, limit: int = MAX_OBSERVATION_CHARS) -> str:
    """Return `text`, with its middle left out at line boundaries if it is longer than `limit`."""
    if len(text) <= limit + min(SLACK_CHARS, limit // 10):
        return text
    head, tail = lines_before(text, limit * 2 // 3), lines_after(text, limit - limit * 2 // 3)
    left_out = len(text) - len(head) - len(tail)
    return f"{head}[… {left_out:,} characters are left out here …]\n{tail}"


def _reply_messages(reply: _OpenReply) -> list[Message]:
    calls = list(reply.calls.items())
    messages = []
    if reply.text.strip() or calls:
        messages.append(
            Message.from_tool_calls(
                (call for _, call in calls),
                reply.text,
                reply.provider_data,
                prefix_changed=reply.prefix_changed,
            )
        )
    for event_id, call in calls:
        result = reply.results.get(event_id)
        messages.append(result or Message.tool_message(_NO_RESULT, call.id, is_error=True))
    return messages + reply.deferred_messages


def _result(event: Observation, call: ToolCall) -> Message:
    if isinstance(event, UserRejectObservation):
        why = event.content or "The user did not allow this."
        return Message.tool_message(why, call.id, is_error=True)
    images = event.image_urls if isinstance(event, _WITH_IMAGES) else ()
    failed = isinstance(event, ErrorObservation) or getattr(event, "error", False) is True
    return Message.tool_message(
        shown_text(event) or "(no output)", call.id, is_error=failed, image_urls=images
    )


class PrefixCheck:
    """Compares the successive requests of one session, messages by identity, so that no text is
    read twice. The first request of a process is compared with what the session stored."""

    def __init__(self) -> None:
        self._begun = False
        self._taken = 0
        self._system = ""
        self._tools: Sequence[ToolSchema] = ()
        self._messages: list[Message] = []

    def change(self, request: Request, events: Sequence[Event]) -> PrefixChangedObservation | None:
        """Return what differs in `request` from the one before it, to be recorded before it is
        sent; None if the request only continues that one, or starts afresh after a condensation or
        a rewind."""
        same = common_start(self._messages, request.messages)
        if self._begun:
            changed = self._compare(request, same, events[self._taken :])
        else:
            changed = _since_stored(request, events)
        sent = len(self._messages)
        self._begun = True
        self._taken = len(events)
        self._system, self._tools = _system(request), request.tools
        self._messages[same:] = request.messages[same:]
        if changed is None:
            return None
        place = f" of {sent}" if changed.startswith("message") else ""
        return PrefixChangedObservation(
            changed=changed,
            content=f"{changed}{place} differs from the request before: "
            "the provider's prompt cache is lost from there on",
        )

    def _compare(self, request: Request, same: int, new: Iterable[Event]) -> str | None:
        if _system(request) != self._system:
            return "system"
        if request.tools is not self._tools and request.tools != self._tools:
            return "tools"
        excused = any(isinstance(event, _EXCUSES) for event in new)
        return None if excused or same == len(self._messages) else f"message {same + 1}"


def _since_stored(request: Request, events: Sequence[Event]) -> str | None:
    """Return what differs from what an earlier process must have sent, if there was one."""
    asked = next((e for e in newest_first(events) if e.begins_main_reply), None)
    if asked is None or asked.llm_metrics is None:
        return None
    stored = next((e for e in events if isinstance(e, SystemMessageAction)), None)
    if stored is not None and _system(request) != stored.content:
        return "system"
    if stored is not None and [asdict(tool) for tool in request.tools] != list(stored.tools):
        return "tools"
    started = newest(events, SessionStartedObservation)
    return None if started and started.model == asked.llm_metrics.model else "model"


def _system(request: Request) -> str:
    system = takewhile(lambda message: message.role is Role.SYSTEM, request.messages)
    return "\n\n".join(message.content for message in system)
