"""A session: an event stream and the state folded from it, under one lock; secrets are masked in
what it stores and shows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from agentcli.errors import SessionError
from agentcli.events import (
    Action,
    Event,
    Observation,
    Progress,
    Source,
    event_from_dict,
    event_to_dict,
)
from agentcli.events.actions import AgentDelegateAction, MessageAction
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    ErrorObservation,
    ReplyDiscardedObservation,
)
from agentcli.events.progress import ReasoningDelta, TextDelta, ToolOutput
from agentcli.events.texts import compact_json
from agentcli.interrupts import shield
from agentcli.sessions.event_log import PAGE, EventLog, SessionRecord, read_record
from agentcli.sessions.folder import unwritable
from agentcli.sessions.history import (
    awaits_approval,
    interruption_was_recorded,
    open_actions,
    torn_reply,
    unsent_restore_message,
    with_may_have_begun,
    without_delegated,
)
from agentcli.sessions.library import store_of
from agentcli.sessions.state import TRANSITIONS, AgentState, State, fold
from agentcli.sessions.store import Lock, Store
from agentcli.workspace.private import remove_tree

_PASSED_ON = 8
"""Characters already passed on that the redactor sees again, to recognise a secret after them."""

Redact = Callable[[Any], Any]
"""Masks secrets in JSON data at any depth."""

Piece = TextDelta | ReasoningDelta | ToolOutput


class Redactor(Protocol):
    def __call__(self, data: Any) -> Any:
        """Return JSON data with its secrets masked at any depth; the same object when there are
        none."""

    def safe_prefix_length(self, text: str) -> int:
        """Return how many characters of `text`, the newest part of a stream, can be masked and
        passed on. The caller puts the rest before the next part, because a secret may begin
        there."""

    def note(self, before: str, after: str) -> str:
        """Return a sentence for the reader of `after` that says how many secrets of `before` are
        masked in it; empty if none."""


class NoSecrets:
    """Masks nothing."""

    def __call__(self, data: Any) -> Any:
        return data

    def safe_prefix_length(self, text: str) -> int:
        return len(text)

    def note(self, before: str, after: str) -> str:
        return ""


class StreamRedactor:
    """Holds back the end of a stream while a secret may have begun in it."""

    def __init__(self) -> None:
        self._stream: tuple[type, int | None] | None = None
        self._held: Piece | None = None
        self._passed = ""

    def add(self, piece: Piece, redact: Redactor) -> Iterator[Piece]:
        """Yield what can be passed on now of the held text and `piece`. An empty piece, which only
        says that time passes, always can."""
        tells_time = not piece.text
        if _stream(piece) != self._stream:
            yield from self.release(redact)
            self._stream = _stream(piece)
        if self._held is not None:
            piece = replace(piece, text=self._held.text + piece.text)
        end = max(redact.safe_prefix_length(self._passed + piece.text) - len(self._passed), 0)
        self._held = replace(piece, text=piece.text[end:]) if end < len(piece.text) else None
        self._passed = (self._passed + piece.text[:end])[-_PASSED_ON:]
        if end or tells_time:
            yield replace(piece, text=redact(piece.text[:end]))

    def release(self, redact: Redactor) -> Iterator[Piece]:
        """Yield what was held, because its stream has ended."""
        held, self._held = self._held, None
        self._stream, self._passed = None, ""
        if held is not None:
            yield replace(held, text=redact(held.text))


def _stream(piece: Piece) -> tuple[type, int | None]:
    return type(piece), piece.action_id if isinstance(piece, ToolOutput) else None


_SAVE_STATE_EVERY = 20
_REPLACEMENT = "\ufffd".encode()

log = logging.getLogger(__name__)

__all__ = ["SessionLog", "SessionRecord", "Subscriber", "read_session"]


class Subscriber(Protocol):
    """Receives all events and progress in order, on the thread that works on the session. One that
    raises is dropped."""

    def on_event(self, event: Event) -> None: ...
    def on_progress(self, progress: Progress) -> None: ...


def read_session(folder: Path) -> SessionRecord:
    """Read a session. Raises SessionError when it does not exist, nothing of it can be read, or it
    is another user's."""
    return read_record(folder, store_of(folder))


class SessionLog:
    """A session open for writing: only `emit` and `emit_group` record events. Use it as a context
    manager, or `close` it."""

    def __init__(
        self, folder: Path, store: Store, lock: Lock, record: SessionRecord | None
    ) -> None:
        """`store` is locked by `lock` and not open yet."""
        self.folder = folder
        self.outputs = folder / "outputs"
        self._lock = lock
        self._store = store
        self._failed: SessionError | None = None
        self._subscribers: list[Subscriber] = []
        self._pending: dict[int, Action] = {}
        self._held = StreamRedactor()
        self.redact: Redactor = NoSecrets()
        past = record.events if record else []
        self.events = EventLog(past, self._page)
        self.state: State = record.state if record else State()
        self.outputs.mkdir(mode=0o700, exist_ok=True)
        self._store.open(record.log if record else None)

    @classmethod
    def create(cls, folder: Path) -> SessionLog:
        """Create a session in a new folder. Raises SessionError when that fails, and leaves no
        folder behind."""
        store = store_of(folder)
        with ExitStack() as undo:
            lock = store.create()
            # Only now is the folder ours to remove: before, it may have been someone else's.
            undo.callback(remove_tree, folder)
            undo.enter_context(lock)
            undo.callback(store.remove)
            try:
                session = cls(folder, store, lock, None)
            except OSError as error:
                raise unwritable(folder.parent, error) from error
            undo.pop_all()
        return session

    @classmethod
    def open(cls, folder: Path) -> SessionLog:
        """Open a session for writing and account for what a killed process left: see `_recover`.

        Raises SessionError for a session that has a gap, is damaged in the middle or belongs to
        another user, UsageError when another process holds it.
        """
        store = store_of(folder)
        with ExitStack() as undo:
            lock = undo.enter_context(store.lock())
            record = read_session(folder)
            record.require_whole()
            session = cls(folder, store, lock, record)
            undo.pop_all()
            undo.enter_context(session)
            session._recover()
            undo.pop_all()
        return session

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def has_failed(self) -> bool:
        """Whether an event couldn't be written. Nothing can be until the session is reopened."""
        return self._failed is not None

    def subscribe(self, *subscribers: Subscriber) -> None:
        self._subscribers += subscribers

    def emit(self, event: Event) -> Event:
        """Record one event as `emit_group` does. Return it with its id and time."""
        return self.emit_group([event])[0]

    def emit_group(self, events: Sequence[Event]) -> list[Event]:
        """Record events that belong together. All are on disk before any is acted on.

        Secrets are masked in what is stored, folded and shown. What is returned, and what
        `pending_actions` gives, is unmasked so that it can be carried out as meant. Raises
        SessionError when the events can't be written; then nothing may be acted on.
        """
        if self._failed is not None:
            raise self._failed
        with shield():
            originals, stored, records = self._prepare(events)
            state = fold(stored, self.state)
            barrier = any(not isinstance(event, Observation) for event in originals)
            try:
                self._store.append(records, state, barrier=barrier)
            except SessionError as error:
                self._failed = error
                raise
            self.state = state
            for original, kept in zip(originals, stored, strict=True):
                self.events.append(kept)
                if isinstance(original, Action):
                    if original.runnable and original.tool_call_metadata is not None:
                        self._pending[original.id] = original
                elif original.cause is not None and not isinstance(original, DecisionObservation):
                    self._pending.pop(original.cause, None)
            self._tell_all("on_progress", self._held.release(self.redact))
            self._tell_all("on_event", stored)
            if stored[-1].id // _SAVE_STATE_EVERY > (stored[0].id - 1) // _SAVE_STATE_EVERY:
                self._store.save_state(self.state)
            self._stop_when_full()
        return originals

    def _prepare(
        self, events: Sequence[Event]
    ) -> tuple[list[Event], list[Event], list[tuple[int, bytes]]]:
        """Return the events with id and time, both as meant and as stored, and their JSON."""
        now = datetime.now(UTC)
        originals, stored, records = [], [], []
        for event_id, event in enumerate(events, len(self.events)):
            stamped = event.model_copy(update={"id": event_id, "timestamp": now})
            data = event_to_dict(stamped)
            masked = self.redact(data)
            if masked is not data and isinstance(event, Observation):
                note = self.redact.note(event.content, masked.get("content", ""))
                masked |= {"content": f"{masked['content']}\n{note}"} if note else {}
            body = compact_json(masked)
            # Lone surrogates may have been replaced, so that the stored event differs.
            if masked is not data or _REPLACEMENT in body:
                stored.append(event_from_dict(json.loads(body)))
            else:
                stored.append(stamped)
            originals.append(stamped)
            records.append((event_id, body))
        return originals, stored, records

    def _stop_when_full(self) -> None:
        """If the disk was full and the reserve had to be used, record why work stops, and raise."""
        full, self._store.exhausted = self._store.exhausted, None
        if full is None:
            return
        try:
            self.abandon_pending(*["Not started: the disk was full."] * 2)
            if AgentState.ERROR in TRANSITIONS[self.state.agent_state]:
                self.change_state(AgentState.ERROR, "disk_full", full.message, full.exit_code)
        finally:
            self._failed = full
        raise full

    def notify(self, progress: Progress) -> None:
        """Send a passing notice to the subscribers, with secrets masked; nothing is stored."""
        if isinstance(progress, TextDelta | ReasoningDelta | ToolOutput):
            self._tell_all("on_progress", self._held.add(progress, self.redact))
        else:
            self._tell_all("on_progress", self._held.release(self.redact))
            values = {field.name: getattr(progress, field.name) for field in fields(progress)}
            self._tell("on_progress", replace(progress, **self.redact(values)))

    def pending_actions(self) -> list[Action]:
        """Return the actions that still need an observation, in order, as the model meant them."""
        return list(self._pending.values())

    def change_state(
        self,
        agent_state: AgentState,
        reason: str = "",
        content: str = "",
        exit_code: int | None = None,
    ) -> None:
        """Record a new agent state. Raises ValueError on a transition that `TRANSITIONS` lacks."""
        if agent_state not in TRANSITIONS[self.state.agent_state]:
            raise ValueError(f"{self.state.agent_state} can't become {agent_state}")
        self.emit(
            AgentStateChangedObservation(
                agent_state=agent_state, reason=reason, content=content, exit_code=exit_code
            )
        )
        if agent_state is not AgentState.RUNNING:
            self._store.save_state(self.state)

    def abandon_pending(self, running: str, queued: str) -> None:
        """Give every open action except leading delegations its observation: `running` for the one
        in progress (and the reads beside it), `queued` for those not begun."""
        open_ones = without_delegated(list(self._pending.values()))
        for action, begun in list(with_may_have_begun(open_ones)):
            content = running if begun else queued
            self.emit(ErrorObservation(error_id="interrupted", content=content, cause=action.id))

    def close(self) -> None:
        self._store.save_state(self.state)
        self._store.close()
        self._lock.release()

    def discard(self) -> None:
        """Close the session and, as far as the disk allows, delete everything of it."""
        remove_tree(self.folder)
        with suppress(SessionError):
            self._store.remove()
        self._store.close()
        self._lock.release()

    def _page(self, start: int) -> list[Event]:
        """Read the page of events that begins at `start` again. Raises SessionError."""
        records = self._store.read(range(start, start + PAGE))
        if len(records) < PAGE:
            raise SessionError(
                f"event {start + len(records)} was damaged while session {self.id} was in use"
            )
        return [event_from_dict(record) for record in records]

    def _recover(self) -> None:
        """Complete a log that breaks off anywhere: discard an incomplete reply, give open actions
        an observation that says what is known about them, pause a running turn, and tell the model
        about an unfinished restore of files."""
        if news := unsent_restore_message(self.events):
            self.emit(MessageAction(content=news, source=Source.ENVIRONMENT))
        if torn := torn_reply(self.events):
            self.emit(ReplyDiscardedObservation(reply_id=torn))
        self._pending = {action.id: action for action in open_actions(self.events)}
        first = next(iter(self._pending.values()), None)
        if first is not None and not awaits_approval(self.events, first):
            when = self.events[-1].timestamp.isoformat(timespec="seconds")
            not_started = "Not started: agent was killed before it came to this."
            unknown = (
                f"agent was killed while this was running, at {when} or later. Its effects are "
                "unknown: it may have run fully, in part or not at all. Check before you repeat it."
            )
            delegated = isinstance(first, AgentDelegateAction)
            is_known = delegated or interruption_was_recorded(self.events)
            self.abandon_pending(not_started if is_known else unknown, not_started)
        if self.state.agent_state not in (AgentState.IDLE, AgentState.PAUSED) and (
            AgentState.PAUSED in TRANSITIONS[self.state.agent_state]
        ):
            self.change_state(AgentState.PAUSED, "killed", "the process was killed")

    def _tell_all(self, method: str, these: Iterable[Event | Progress]) -> None:
        for what in these:
            self._tell(method, what)

    def _tell(self, method: str, what: Event | Progress) -> None:
        for subscriber in list(self._subscribers):
            try:
                getattr(subscriber, method)(what)
            except Exception:
                # A failing subscriber must not stop the session.
                log.exception("a subscriber failed and is dropped: %r", subscriber)
                self._subscribers.remove(subscriber)
