"""What a condenser is, and what most of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from agentcli.errors import ConfigError
from agentcli.events import Event, LLMMetrics
from agentcli.events.actions import (
    NOTES_REMINDER,
    SITUATION,
    CondensationAction,
    MessageAction,
)
from agentcli.extensions import ExtensionPoint
from agentcli.memory.projection import MAX_MASKED_MESSAGE_CHARS
from agentcli.memory.view import Step, View, ids_of, is_never_dropped
from agentcli.messages import Reply, Request, Usage
from agentcli.settings import MemorySettings

T = TypeVar("T")

Ask = Callable[[Request, float], Reply]
"""Asks a model, given how many USD have been spent but not recorded yet. Raises LLMError."""

PART = "condenser"
FIRST_EVENT = "first_event"
"""Key in the numbers of a condensation: the oldest event out of sight, by earlier ones too."""


class Condenser(Protocol):
    """Decides what to take out of sight. Pure, except that some ask a model."""

    def condense(self, view: View) -> CondensationAction | None:
        """Return what to take out of sight now; None to leave everything as it is."""


@dataclass(frozen=True)
class Options:
    """What a condenser is built from. `ask` None: there is no model, so summaries are made without
    one. `window` is the window of the model asked, in tokens."""

    settings: MemorySettings
    ask: Ask | None = None
    window: Callable[[], int] = lambda: 32_768


@dataclass(frozen=True)
class CondenserKind:
    """What the file of a condenser defines as `CONDENSER`: how to make one, and the setting that
    bounds how many events it leaves, if there is one."""

    make: Callable[[Options], Condenser]
    bound: Literal["", "max_size", "max_events"] = ""

    def __call__(self, options: Options) -> Condenser:
        """Raises ConfigError if the events kept first leave no room for the newest."""
        if self.bound:
            keep_first, most = options.settings.keep_first, getattr(options.settings, self.bound)
            if keep_first >= most / 2:
                raise ConfigError(
                    f"memory.keep_first is {keep_first} and memory.{self.bound} {most}",
                    hint=f"keep_first must be from 0 to less than half of {self.bound}",
                )
        return self.make(options)


CONDENSERS = ExtensionPoint(
    "agentcli.memory.condensers", "CONDENSER", "agentcli.condensers", CondenserKind
)


def oldest_steps(view: View, target_tokens: float, keep_first: int = 0) -> list[Step]:
    """Return the oldest steps that may go, enough of them to leave about `target_tokens`."""
    oldest = droppable(view, keep_first)
    return first_saving(view.tokens - target_tokens, oldest, lambda step: step.tokens)


def oldest_by_count(view: View, excess: int, keep_first: int) -> list[Step]:
    """Return the oldest steps that may go and together hold `excess` events that the model sees."""
    seen = {event.id for event in view.model_visible_events}
    return first_saving(
        excess,
        droppable(view, keep_first),
        lambda step: sum(event_id in seen for event_id in step.event_ids),
    )


def first_saving(needed: float, items: Iterable[T], saves: Callable[[T], float]) -> list[T]:
    """Return as many of the first `items` as it takes to save what is `needed` in total."""
    chosen = []
    for item in items:
        if needed <= 0:
            break
        chosen.append(item)
        needed -= saves(item)
    return chosen


def oldest_by_both(view: View, keep_first: int, max_size: int, *, reserve: int = 0) -> list[Step]:
    """Return the oldest steps to drop, by tokens or by count, whichever are more. By tokens: down
    to `reserve` below the target, if the window must be shorter. By count: down to half of
    `max_size` events, if there are more than `max_size` (0: no limit)."""
    # The target is costly to compute, and this runs before each request.
    by_tokens = oldest_steps(view, view.target() - reserve, keep_first) if view.due else []
    crowded = 0 < max_size < view.count
    by_count = oldest_by_count(view, view.count - max_size // 2, keep_first) if crowded else []
    return max(by_tokens, by_count, key=len)


def droppable(view: View, keep_first: int = 0) -> list[Step]:
    """Return the old steps, except those of the first `keep_first` events after the system text."""
    first = {event.id for event in view.model_visible_events[1 : 1 + keep_first]}
    return [step for step in view.old_steps if not first.intersection(step.event_ids)]


def forget(view: View, gone: Sequence[Step], summary: str, reason: str) -> CondensationAction:
    """Take whole steps out of sight, with everything around them that need not stay and every
    earlier summary; `summary` takes their place. It goes after everything said before the last
    removed event, so that nothing old looks new."""
    going = ids_of(gone)
    staying = ids_of(step for step in view.steps if step not in gone)
    end = max(going)
    forgotten = sorted(
        event.id
        for event in view.events
        if isinstance(event, CondensationAction)
        or event.id in going
        or _is_outdated(event)
        or (event.id <= end and event.id not in staying and not is_never_dropped(event))
    )
    gone_ids = set(forgotten)
    before = sum(event.id <= end and event.id not in gone_ids for event in view.events)
    first, _ = first_forgotten(view, gone)
    return CondensationAction(
        forgotten_event_ids=tuple(forgotten),
        masked_event_ids=tuple(_too_long(view, end)),
        summary=summary,
        summary_offset=before,
        reason=reason,
        numbers={FIRST_EVENT: first},
    )


def _is_outdated(event: Event) -> bool:
    """Whether a condensation makes `event` pointless: where the session was before it, the reminder
    that it would come."""
    return isinstance(event, MessageAction) and event.nudge in (SITUATION, NOTES_REMINDER)


def _too_long(view: View, end: int) -> Iterator[int]:
    """Yield long messages of the user up to event `end`, which are only referenced from now on; the
    first one, the task, only if it alone exceeds the target."""
    for number, message in enumerate(view.said_by_user):
        limit = MAX_MASKED_MESSAGE_CHARS
        if number == 0 and view.sizes[message.id] <= view.target():
            continue
        if message.id <= end and len(message.content) > limit and message.id not in view.masked:
            yield message.id


def first_forgotten(view: View, gone: Iterable[Step]) -> tuple[int, int]:
    """Return the oldest and the newest event that will be out of sight. The oldest may be one that
    an earlier summary covers."""
    ids = ids_of(gone)
    earlier = [
        int(summary.numbers.get(FIRST_EVENT, min(summary.forgotten_ids(), default=summary.id)))
        for summary in view.summaries
    ]
    return min([*ids, *earlier]), max(ids)


def metrics(replies: Sequence[Reply]) -> LLMMetrics | None:
    """Return what `replies` used in total, attributed to the condenser; None if there are none."""
    if not replies:
        return None
    costs = [reply.cost_usd for reply in replies]
    together = replace(
        replies[-1],
        usage=sum((reply.usage for reply in replies), Usage()),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
        latency_s=sum(reply.latency_s for reply in replies),
        time_to_first_token_s=0.0,
    )
    return LLMMetrics.of(together, PART)
