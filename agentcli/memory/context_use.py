"""What fills a model's window: the parts of the next request, by kind, and of each earlier one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    CondensationAction,
    MessageAction,
    RewindAction,
    SystemMessageAction,
)
from agentcli.events.conversation import live
from agentcli.events.observations import (
    DecisionObservation,
    ErrorObservation,
    RecallObservation,
    ReplyDiscardedObservation,
)
from agentcli.memory.memory import Memory
from agentcli.memory.projection import shown_text, visible, visible_without_call
from agentcli.memory.tokens import Size, TokenEstimator, image_tokens, text_bytes, tools_size
from agentcli.memory.view import is_visible_to_model
from agentcli.memory.window import Window, reply_reserve
from agentcli.messages import Message, Role, ToolSchema

Kind = Literal[
    "system", "tools", "facts", "instructions", "skills", "notes", "user", "replies", "results",
    "summaries", "other",
]  # fmt: skip
MOST_BIGGEST = 10
_OVERHEAD_BYTES = 16
_RECALLED: dict[str, Kind] = {
    **{"facts": "facts", "instructions": "instructions", "notes": "notes"},
    **{"skill": "skills", "skills": "skills", "task": "skills"},
}
_Piece = tuple[Kind, str, Event, Size, str]


@dataclass(frozen=True)
class Part:
    """One thing the model is sent. `name` is the tool of a result, or the file or skill; `about`
    describes it in one line for people."""

    kind: Kind
    name: str
    event_id: int
    tokens: int
    about: str


@dataclass(frozen=True)
class Share:
    """All parts of one kind or, for results, of one tool."""

    kind: Kind
    name: str
    tokens: int


@dataclass(frozen=True)
class ContextUse:
    """Tokens by kind, estimated from the provider's last count. `reserve` is for the reply."""

    window: int
    reserve: int
    shares: tuple[Share, ...]
    biggest: tuple[Part, ...]

    @property
    def used(self) -> int:
        return sum(share.tokens for share in self.shares)

    @property
    def free(self) -> int:
        return max(0, self.window - self.reserve - self.used)


def context_use(
    events: Sequence[Event], window: int, max_output_tokens: int, provider: str = ""
) -> ContextUse:
    """Break down what the next request of a session with these events would hold. `window` is all
    that the model takes, in tokens; `provider` determines how images count."""
    shown = visible(live(events))
    found = list(_pieces(shown, provider))
    estimator = _estimator(found, events)
    parts = [
        Part(kind, name, event.id, estimator.tokens(size), about)
        for kind, name, event, size, about in found
    ]
    sums: dict[tuple[Kind, str], int] = defaultdict(int)
    for part in parts:
        sums[part.kind, part.name if part.kind == "results" else ""] += part.tokens
    order = list(Kind.__args__)  # type: ignore[attr-defined]
    shares = sorted(
        (Share(kind, name, tokens) for (kind, name), tokens in sums.items() if tokens),
        key=lambda share: (order.index(share.kind), -share.tokens, share.name),
    )
    biggest = sorted(parts, key=lambda part: -part.tokens)[:MOST_BIGGEST]
    reserve = reply_reserve(window, max_output_tokens)
    return ContextUse(window, reserve, tuple(shares), tuple(p for p in biggest if p.tokens))


def _pieces(shown: Sequence[Event], provider: str) -> Iterator[_Piece]:
    """Yield the pieces of a request made of `shown`, the visible events of a session."""
    torn = {event.reply_id for event in shown if isinstance(event, ReplyDiscardedObservation)}
    tool_of = {
        event.id: event.tool_call_metadata.function_name
        for event in shown
        if event.tool_call_metadata is not None
    }
    for event in shown:
        if event.reply is None or event.reply.id not in torn:
            yield from pieces_of(event, tool_of.get(event.cause or -1), provider)


def pieces_of(event: Event, tool: str | None, provider: str) -> Iterator[_Piece]:
    """Yield the pieces of one event; `tool` is that of the call it answers, if it answers one."""
    if event.reply is not None:
        yield "replies", "", event, _reply_size(event), event.message
    elif isinstance(event, SystemMessageAction):
        yield "system", "", event, _size(event.content), "the system text"
        parts = ((t.get("name"), t.get("description"), t.get("parameters")) for t in event.tools)
        schemas = tuple(ToolSchema(str(a), str(b), c or {}) for a, b, c in parts)
        yield "tools", "", event, tools_size(schemas), f"{len(event.tools)} tools"
    elif isinstance(event, CondensationAction):
        if event.summary:
            yield "summaries", "", event, _size(event.summary), event.message
    elif isinstance(event, MessageAction):
        images = sum(image_tokens(url, provider) for url in event.image_urls)
        kind: Kind = "user" if event.source is Source.USER else "other"
        yield kind, "", event, _size(event.content) + Size(0, images), event.message
    elif isinstance(event, Observation) and not isinstance(event, DecisionObservation):
        yield from _observed(event, tool, provider)


def _observed(event: Observation, tool: str | None, provider: str) -> Iterator[_Piece]:
    size = _size(shown_text(event))
    if tool is not None:
        urls = getattr(event, "image_urls", ())
        images = sum(image_tokens(url, provider) for url in urls)
        yield "results", tool, event, size + Size(0, images), event.message
    elif isinstance(event, RecallObservation):
        yield from _recalled(event, size)
    elif visible_without_call(event):
        yield "other", "", event, size, event.message


def _recalled(event: RecallObservation, size: Size) -> Iterator[_Piece]:
    """Split an event by what was recalled, and its bytes in proportion to the characters."""
    pieces = event.result.get("pieces")
    recalled: list[dict[str, Any]] = [p for p in pieces or () if isinstance(p, dict)]
    told_chars = (piece.get("chars") for piece in recalled)
    chars = [number if isinstance(number, int) else 0 for number in told_chars]
    if not recalled or sum(chars) > len(event.content):
        # It is from an earlier version, or has been masked since.
        yield "facts", "", event, size, event.message
        return
    for piece, count in zip(recalled, chars, strict=True):
        kind = _RECALLED.get(str(piece.get("kind")), "other")
        name = str(piece.get("name", ""))
        yield kind, name, event, Size(size.text * count // max(1, sum(chars))), name


def _reply_size(event: Event) -> Size:
    size = Size()
    if event.provider_data is not None:
        size += Size(sum(len(str(item)) for item in event.provider_data.items))
    if isinstance(event, MessageAction):
        return size + _size(event.content)
    if isinstance(event, Action) and event.tool_call_metadata is not None:
        call = event.tool_call_metadata
        return size + _size(call.function_name) + _size(call.raw_arguments)
    return size + (_size(event.content) if isinstance(event, ErrorObservation) else Size())


def _size(text: str) -> Size:
    return Size(text_bytes(text) + _OVERHEAD_BYTES)


def _estimator(found: Sequence[_Piece], events: Sequence[Event]) -> TokenEstimator:
    """Return an estimator calibrated by the last reply, if what was sent for it is still shown."""
    estimator = TokenEstimator()
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if isinstance(event, CondensationAction):
            break
        if event.llm_metrics is not None and event.begins_main_reply:
            sent = Size()
            for _, _, each, size, _ in found:
                sent += size if each.id < event.id else Size()
            estimator.learn(sent, event.llm_metrics.prompt_tokens)
            break
    return estimator


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
            estimates = {kind: estimator.tokens(size) for kind, size in contents.sizes.items()}
            scale = tokens / max(sum(estimates.values()), 1)
            shares = {kind: round(estimate * scale) for kind, estimate in estimates.items()}
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
