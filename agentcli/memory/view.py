"""What a condenser works from: a session's visible part, its history's figures, how full it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    CondensationAction,
    CondensationRequestAction,
    MessageAction,
    SystemMessageAction,
    TaskTrackingAction,
    is_user_message,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    RecallObservation,
    ReplyDiscardedObservation,
)
from agentcli.memory.projection import shown_text, visible, visible_without_call
from agentcli.memory.tokens import text_bytes
from agentcli.memory.window import Decision
from agentcli.messages import Reply

STEPS_ALWAYS_KEPT = 2
_OVERHEAD_BYTES = 24
_ANSWERED = ("finished", "awaiting_user_input")
TOKENS_BEFORE = "tokens_before"
TOKENS_AFTER = "tokens_after"
"""Keys in the numbers of a condensation: estimates for the request before and after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One reply with everything that came of it."""

    event_ids: tuple[int, ...]
    tokens: int


@dataclass(frozen=True)
class View:
    """A session as condensers see it. The numbers are known at once; `events`, and all that derives
    from them, are read on first use, so that a condenser that first looks at the numbers costs
    nothing that grows with the session.

    Of the visible events, `count` say something to the model, `fresh` of them since the last
    condensation. `dealt_with` is the id of the newest message of the user that a finished turn has
    answered.
    """

    tokens: int
    count: int
    fresh: int
    next_id: int
    load: Callable[[], Sequence[Event]]
    original: Callable[[int], Event]
    """Returns an event as it was recorded, even if it is masked."""
    decide: Callable[[], Decision] = lambda: Decision(False, "", {})
    target: Callable[[], int] = lambda: 0
    """Returns the number of tokens to come down to."""
    bytes_per_token: float = 4.0
    forced: str = ""
    """Why the window must be made shorter whatever its size; empty if it need not."""
    focus: str = ""
    now: datetime | None = None
    failed_at: datetime | None = None
    """When a summariser last failed."""
    todo: TaskTrackingAction | None = None
    dealt_with: int = -1
    masked: Collection[int] = field(default_factory=frozenset)
    permit: Callable[[], bool] = lambda: True
    """Whether the conversation may be condensed now; asked before a model is paid to help."""
    replies: list[Reply] = field(default_factory=list)
    """The answers of models that were asked while using this view; all of them were paid for."""

    @cached_property
    def decision(self) -> Decision:
        return Decision(True, self.forced, {}) if self.forced else self.decide()

    @property
    def due(self) -> bool:
        """Whether the window must be made shorter now."""
        return self.decision.due

    @property
    def paid_usd(self) -> float:
        """The known cost of the replies."""
        return sum(reply.cost_usd or 0.0 for reply in self.replies)

    @cached_property
    def events(self) -> Sequence[Event]:
        """The visible events in order, with masked ones masked and summaries in their places."""
        return self.load()

    @property
    def is_loaded(self) -> bool:
        """Whether the events have been loaded."""
        return "events" in self.__dict__

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Roughly how many tokens each visible event takes."""
        return {event.id: self.size(event) for event in self.events}

    def size(self, event: Event) -> int:
        """Return roughly how many tokens `event` takes."""
        return int(event_bytes(event) / self.bytes_per_token)

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The steps of all visible replies, oldest first."""
        reply_of: dict[int, str] = {}
        members: dict[str, list[int]] = {}
        for event in self.events:
            if event.reply is not None:
                reply_id = event.reply.id
            elif isinstance(event, ReplyDiscardedObservation) and event.reply_id in members:
                reply_id = event.reply_id
            elif event.cause is not None and event.cause in reply_of:
                reply_id = reply_of[event.cause]
            else:
                continue
            reply_of[event.id] = reply_id
            members.setdefault(reply_id, []).append(event.id)
        return [Step(tuple(ids), sum(self.sizes[i] for i in ids)) for ids in members.values()]

    @property
    def old_steps(self) -> Sequence[Step]:
        """All steps but the newest two, which always stay."""
        return self.steps[:-STEPS_ALWAYS_KEPT]

    @cached_property
    def model_visible_events(self) -> Sequence[Event]:
        """The visible events of which the model sees something."""
        return [event for event in self.events if is_visible_to_model(event)]

    @property
    def summaries(self) -> Sequence[CondensationAction]:
        return [event for event in self.events if isinstance(event, CondensationAction)]

    @property
    def said_by_user(self) -> Sequence[MessageAction]:
        return list(filter(is_user_message, self.events))

    def after(self, action: CondensationAction) -> View:
        """Return the view that `action` would leave."""
        stamped = action.model_copy(update={"id": self.next_id})
        left = visible([*self.events, stamped], self.masked)
        tokens = self.tokens - sum(self.sizes.values()) + sum(map(self.size, left))
        target = self.target()
        return replace(
            self,
            tokens=tokens,
            count=sum(map(is_visible_to_model, left)),
            fresh=0,
            load=lambda: left,
            decide=lambda: replace(self.decision, due=tokens > target),
            forced="",
            masked=frozenset([*self.masked, *action.masked_event_ids]),
        )


def is_visible_to_model(event: Event) -> bool:
    """Whether the model sees something of `event`."""
    if isinstance(event, CondensationAction):
        return bool(event.summary)
    if isinstance(event, SystemMessageAction | MessageAction) or event.reply is not None:
        return True
    if isinstance(event, DecisionObservation) or not isinstance(event, Observation):
        return False
    return event.cause is not None or visible_without_call(event)


def is_never_dropped(event: Event) -> bool:
    """Whether `event` stays whatever is forgotten around it: the system text, what the user said,
    and what the session itself said (about the workspace, instructions), except for nudges."""
    if isinstance(event, MessageAction):
        is_fact = event.source is Source.ENVIRONMENT and event.nudge is None
        return event.source is Source.USER or is_fact
    return isinstance(event, SystemMessageAction | RecallObservation)


def event_bytes(event: Event) -> int:
    """Return roughly how much of a request `event` takes, in bytes of text."""
    size = _OVERHEAD_BYTES if is_visible_to_model(event) else 0
    if isinstance(event, CondensationAction):
        return size + text_bytes(event.summary or "")
    if isinstance(event, SystemMessageAction | MessageAction):
        size += text_bytes(event.content)
    elif isinstance(event, Observation) and size:
        size += text_bytes(shown_text(event))
    elif isinstance(event, Action) and event.tool_call_metadata is not None:
        call = event.tool_call_metadata
        size += len(call.function_name) + text_bytes(call.raw_arguments)
    if event.provider_data is not None:
        size += sum(len(str(item)) for item in event.provider_data.items)
    images: Sequence[str] = getattr(event, "image_urls", ())
    return size + len(images) * 6_000


def ids_of(steps: Iterable[Step]) -> set[int]:
    return {event_id for step in steps for event_id in step.event_ids}


@dataclass
class HistoryStats:
    """`steps`: replies so far. `poor_passes`: condensations in a row, since the user last spoke,
    that saved less than 10 %; `tokens_left`: what the newest condensation left. `request`: the
    focus of a condensation that the model asked for and that is still to be made. `dealt_with`: the
    newest message of the user that a finished turn has answered."""

    steps: int = 0
    todo: TaskTrackingAction | None = None
    failed_at: datetime | None = None
    now: datetime | None = None
    dealt_with: int = -1
    poor_passes: int = 0
    tokens_left: float = 0.0
    request: str | None = None
    newest_message: int = -1
    staying_bytes: int = 0
    """Size of what stays in sight whatever else goes."""

    def feed(self, event: Event) -> None:
        self.now = event.timestamp
        if is_never_dropped(event) and getattr(event, "recall_type", "") != "event":
            self.staying_bytes += event_bytes(event)
        if event.reply is not None and event.reply.index == 0:
            self.steps += 1
        if isinstance(event, TaskTrackingAction) and event.command == "plan":
            self.todo = event
        elif isinstance(event, CondensationRequestAction):
            self.request = event.focus
        elif isinstance(event, CondensationAction):
            self.request = None
            self.failed_at = event.timestamp if event.summariser_error else self.failed_at
            self.poor_passes = self.poor_passes + 1 if is_poor(event) else 0
            self.tokens_left = event.numbers.get(TOKENS_AFTER, 0.0)
        elif is_user_message(event):
            self.newest_message = event.id
            self.poor_passes = 0
        elif isinstance(event, AgentStateChangedObservation) and event.agent_state in _ANSWERED:
            self.dealt_with = self.newest_message


def is_poor(event: CondensationAction) -> bool:
    """Whether a condensation saved less than 10 %, according to its numbers."""
    before, after = (event.numbers.get(name, 0.0) for name in (TOKENS_BEFORE, TOKENS_AFTER))
    return before > 0 and after > before * 0.9
