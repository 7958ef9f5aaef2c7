"""Memory: the window of a session that the model is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentcli.events import Event
from agentcli.events.actions import CondensationAction, RewindAction
from agentcli.events.live import live
from agentcli.memory.projection import Projector, visible
from agentcli.memory.tokens import TokenEstimator, message_bytes, tools_bytes
from agentcli.messages import Message, Role, ToolSchema

STEPS_ALWAYS_KEPT = 2
_SMALLEST_WINDOW = 2_048


@dataclass(frozen=True)
class WindowLimits:
    """Tokens the model takes in (asked when it begins to matter), and the shares of it at which
    the window slides and where it slides to: far apart, as each slide gives up the provider's
    prompt cache."""

    context_tokens: Callable[[], int]
    high_water: float = 0.75
    low_water: float = 0.5


class Memory:
    """Follows one session's events; each is looked at once, until a condensation. Only messages
    and the ids of what they were made of are kept."""

    def __init__(self, limits: WindowLimits, tools: tuple[ToolSchema, ...] = ()) -> None:
        self.limits = limits
        self.estimator = TokenEstimator()
        self._tools_bytes = tools_bytes(tools)
        self._projector = Projector()
        self._taken = 0
        self._shown: list[int] = []
        self._measured = 0
        self._bytes = 0
        self._window_tokens = 0

    def window(self, events: Sequence[Event]) -> list[Message]:
        """The messages for the next request."""
        new: Sequence[Event] = events[self._taken :]
        if any(isinstance(event, CondensationAction | RewindAction) for event in new):
            new = self._begin_again(events, new)
        self._shown += [event.id for event in new]
        for event in new:
            self._projector.feed(event)
        self._taken = len(events)
        return self._projector.messages()

    def _begin_again(self, events: Sequence[Event], new: Sequence[Event]) -> Sequence[Event]:
        """What is visible now, to be projected anew."""
        if any(isinstance(event, RewindAction) for event in new):
            self._shown, new = [], live(events)
        shown = sorted(self._shown)
        self._projector = Projector()
        self._shown = []
        self._measured = self._bytes = 0
        return visible([*(events[event_id] for event_id in shown), *new])

    def tokens(self, events: Sequence[Event]) -> int:
        """Estimated tokens of the next request."""
        messages = self.window(events)
        self._bytes += sum(message_bytes(message) for message in messages[self._measured :])
        self._measured = len(messages)
        return self.estimator.tokens(self._bytes + self._tools_bytes)

    def learn(self, prompt_tokens: int) -> None:
        """The provider counted this for the request made of the last window."""
        self.estimator.learn(self._bytes + self._tools_bytes, prompt_tokens)

    def condense(self, events: Sequence[Event]) -> CondensationAction | None:
        """What to forget now, if the window is over the high-water mark: the oldest whole steps,
        down to the low-water mark; never what the user said, nor the newest two steps."""
        before = self.tokens(events)
        if before <= _SMALLEST_WINDOW * self.limits.high_water:
            return None
        window = self._window_tokens = self._window_tokens or self.limits.context_tokens()
        if before <= window * self.limits.high_water:
            return None
        return self.slide(events, window * self.limits.low_water)

    def slide(self, events: Sequence[Event], target_tokens: float) -> CondensationAction | None:
        """Forget oldest steps until about `target_tokens` are left; None when nothing can go."""
        total = self.tokens(events)
        messages = self.window(events)
        steps = self._projector.steps
        left, end = float(total), 0
        for number, (_, index) in enumerate(steps[: -STEPS_ALWAYS_KEPT or None]):
            if left <= target_tokens:
                break
            end, next_index = (
                steps[number + 1] if number + 1 < len(steps) else (len(events), len(messages))
            )
            gone = [m for m in messages[index:next_index] if m.role in (Role.ASSISTANT, Role.TOOL)]
            left -= self.estimator.tokens(sum(message_bytes(message) for message in gone))
        shown = visible([events[event_id] for event_id in sorted(self._shown)])
        forgotten = [
            event.id
            for event in shown
            if steps
            and steps[0][0] <= event.id < end
            and (event.reply is not None or event.cause is not None)
        ]
        if not forgotten:
            return None
        earlier = [event for event in shown if isinstance(event, CondensationAction)]
        first = min([forgotten[0], *(event.id for event in earlier), *_starts(earlier)])
        notice = (
            f"[Events {first} to {forgotten[-1]} of this session, older work of yours, are no "
            "longer shown here to save space. What the user said is all here.]"
        )
        return CondensationAction(
            forgotten_event_ids=(*forgotten, *(event.id for event in earlier)),
            summary=notice,
            summary_offset=sum(event.id < first for event in shown),
            reason=f"window: {total:,} tokens, over {self.limits.high_water:.0%} of the context",
        )


def _starts(earlier: list[CondensationAction]) -> list[int]:
    return [min(event.forgotten_ids()) for event in earlier]
