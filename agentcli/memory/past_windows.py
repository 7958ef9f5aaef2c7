"""Reconstructs what each request of a session carried, using the memory that built it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentcli.events import Event
from agentcli.events.actions import CondensationAction, RewindAction
from agentcli.events.conversation import live
from agentcli.events.observations import ReplyDiscardedObservation
from agentcli.memory.context_use import Kind, pieces_of
from agentcli.memory.memory import Memory
from agentcli.memory.tokens import Size, TokenEstimator
from agentcli.memory.view import is_visible_to_model
from agentcli.memory.window import Window
from agentcli.messages import Message, Role


@dataclass(frozen=True)
class Base:
    """What consecutive requests begin with: the ids of the events that the first of them carried.
    For the `masked` ones it had a note in place of long text. `gone` maps events that the model no
    longer sees to the event that took them away. `next` is the id of the first reply."""

    shown: Sequence[int]
    masked: Sequence[int]
    gone: Mapping[int, int]
    next: int


@dataclass(frozen=True)
class PastWindow:
    """One request, and the first event of its reply. It carried the events of `base` and those from
    `base.next` up to the reply. `tokens` are the provider's count or, unless `counted`, an
    estimate; `shares` says what they were spent on."""

    reply: int
    base: Base
    messages: int
    tokens: int
    counted: bool
    shares: Mapping[Kind, int]


def past_windows(events: Iterable[Event], provider: str = "") -> Iterator[PastWindow]:
    """Yield one window for each reply of the main model, in order. `events` are all events of a
    session, from id 0; `provider` determines how images count."""
    memory, estimator = Memory(Window(lambda: 0)), TokenEstimator()
    seen: list[Event] = []
    base: Base | None = None
    contents = _Contents(provider)
    for event in events:
        if event.reply is not None and event.reply.index == 0:
            messages = _sent(memory.window(seen))
            if base is None:
                view, gone = memory.view(seen), _gone(seen)
                shown = [e for e in view.events if is_visible_to_model(e) and e.id not in gone]
                ids = sorted(e.id for e in shown)
                base = Base(ids, sorted(view.masked), gone, event.id)
                contents = _Contents(provider, shown)
            counted = event.llm_metrics.prompt_tokens if event.llm_metrics else 0
            estimator.learn(contents.size, counted)
            tokens = counted or estimator.tokens(contents.size)
            shares = _shared_out(tokens, contents.sizes, estimator)
            yield PastWindow(event.id, base, messages, tokens, counted > 0, shares)
        seen.append(event)
        contents.add(event)
        if isinstance(event, CondensationAction | RewindAction | ReplyDiscardedObservation):
            base = None


def _sent(messages: Sequence[Message]) -> int:
    """Return how many messages a provider sees: consecutive messages of the user and the session
    are one to it."""
    before = [None, *messages]
    return sum(
        message.role is not Role.USER or last is None or last.role is not Role.USER
        for last, message in zip(before, messages, strict=False)
    )


def _shared_out(
    tokens: int, sizes: Mapping[Kind, Size], estimator: TokenEstimator
) -> dict[Kind, int]:
    estimates = {kind: estimator.tokens(size) for kind, size in sizes.items()}
    scale = tokens / max(sum(estimates.values()), 1)
    return {kind: round(estimate * scale) for kind, estimate in estimates.items()}


def _gone(seen: Sequence[Event]) -> dict[int, int]:
    """Map each event that the model no longer sees to the event that took it away."""
    gone: dict[int, int] = {}
    for event in seen:
        if isinstance(event, RewindAction) and event.conversation:
            for event_id in range(max(event.to_event + 1, 0), event.id):
                gone.setdefault(event_id, event.id)
    torn = {e.reply_id: e.id for e in seen if isinstance(e, ReplyDiscardedObservation)}
    for event in live(seen):
        if isinstance(event, CondensationAction):
            for event_id in event.forgotten_ids():
                gone.setdefault(event_id, event.id)
        elif event.reply is not None and event.reply.id in torn:
            gone.setdefault(event.id, torn[event.reply.id])
    return gone


class _Contents:
    """The sizes of what a window holds, by kind."""

    def __init__(self, provider: str, shown: Iterable[Event] = ()) -> None:
        self.sizes: dict[Kind, Size] = {}
        self._provider = provider
        self._tool_of: dict[int | None, str] = {}
        for event in shown:
            self.add(event)

    @property
    def size(self) -> Size:
        return sum(self.sizes.values(), Size())

    def add(self, event: Event) -> None:
        if event.tool_call_metadata is not None:
            self._tool_of[event.id] = event.tool_call_metadata.function_name
        tool = self._tool_of.get(event.cause)
        for kind, _, _, size, _ in pieces_of(event, tool, self._provider):
            self.sizes[kind] = self.sizes.get(kind, Size()) + size
