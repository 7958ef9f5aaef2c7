"""Memory: the window of a session that the model sees, and how it is built from the settings."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agentcli.errors import ConfigError, TurnInterrupted
from agentcli.events import Event
from agentcli.events.actions import CondensationAction, RewindAction
from agentcli.events.conversation import live
from agentcli.memory.condenser import CONDENSERS, Ask, Condenser, Options, metrics
from agentcli.memory.condensers.llm_summary import rolling
from agentcli.memory.condensers.observation_masking import MaskLongest
from agentcli.memory.condensers.old_results import OldResults
from agentcli.memory.condensers.pipeline import Pipeline, merged
from agentcli.memory.condensers.window import DropOldest
from agentcli.memory.projection import Projector, changed_at, visible
from agentcli.memory.summary import Postponed
from agentcli.memory.tokens import Size, TokenEstimator, size_of, tools_size
from agentcli.memory.view import (
    TOKENS_AFTER,
    TOKENS_BEFORE,
    HistoryStats,
    View,
    is_poor,
    is_visible_to_model,
)
from agentcli.memory.window import (
    FULL,
    CostForecast,
    Decision,
    Prices,
    Window,
    decide,
    steps_to_come,
    target_tokens,
)
from agentcli.messages import Message, ToolSchema, Usage
from agentcli.settings import MemorySettings

_SMALLEST_WINDOW = 2_048
_LEAVE_ALONE_BELOW_TOKENS = 32_000
_LEAVE_ALONE_BELOW_SHARE = 4
"""A prompt below this, or below a quarter of the window, is left alone while it fits: the saving
would not be worth the forgetting."""
_RESULT_SHARE, _REPLY_SHARE = 0.05, 0.15
"""The most of the window that one result may take, and the results of one reply together: what is
read once is read again with each further request, so few results must not fill a small window."""
_LEAST_RESULT_CHARS = 1_000
_MOST_POOR_PASSES = 2
_GROWN_AGAIN = 1.25
"""How much the window must grow after passes that saved next to nothing to be worth another one."""
_LOOK_AGAIN = 1.03
"""How much the window must grow before a condenser that found nothing to do is asked again."""
_COST_AWARE = "default"
"""The condenser that comes down to what is likely needed; the others come down to low_water."""
_ONLY_A_WINDOW = MemorySettings(condenser="window")
_NOT_DUE = Decision(False, "", {})
_WITHOUT_MODEL = Pipeline(
    [OldResults(), rolling(Options(MemorySettings()), max_size=0)], until_it_fits=True
)
"""Takes old work out of sight at no cost, when a request must become shorter at once."""
log = logging.getLogger(__name__)
_SAMPLE_TOKENS = 1_000


class Memory:
    """Follows the events of one session, and looks at each only once until a condensation. Keeps
    only messages and the ids of the events they were made of."""

    def __init__(
        self,
        window: Window,
        settings: MemorySettings = _ONLY_A_WINDOW,
        tools: tuple[ToolSchema, ...] = (),
        condenser: Condenser | None = None,
        prices: Callable[[], Prices | None] = lambda: None,
        provider: str = "",
        *,
        record: Callable[[CondensationAction], object] = lambda action: None,
        limit_results: Callable[[int, int], None] = lambda one, together: None,
    ) -> None:
        """`prices` of the model are asked for once they matter. Without a `condenser`, the oldest
        steps are dropped. `provider` determines how images count. `record` stores what was paid for
        a condensation that was interrupted. `limit_results` is told before each request how many
        characters one result of the next step may have, and all of them together."""
        self.settings = settings
        self._is_cost_aware = settings.condenser == _COST_AWARE
        self.estimator = TokenEstimator()
        self._condenser = condenser or DropOldest()
        self._ask_prices = prices
        self._provider = provider
        self._record = record
        self._limit_results = limit_results
        self._tools_size = tools_size(tools)
        self.model_window = window
        self.told_of_cut = False
        self._prices: tuple[Prices | None] | None = None
        self._taken = 0
        self._stats = HistoryStats()
        self._masked: set[int] = set()
        self._changed_at = -1
        self._grown = self._grown_steps = 0
        self._start(Projector())

    def _start(self, projector: Projector) -> None:
        self._projector = projector
        self._shown: list[int] = []
        self._measured = 0
        self._size = Size()
        self._count = self._fresh = 0
        self._look_at = 0.0
        self._first_tokens = 0
        self._steps_then = self._stats.steps

    def window(self, events: Sequence[Event]) -> list[Message]:
        """Return the messages for the next request."""
        new: Sequence[Event] = events[self._taken :]
        condensed = -1
        anew = [e.id for e in new if isinstance(e, CondensationAction | RewindAction)]
        if anew:
            condensed = max(anew)
            new = self._begin_again(events, new)
        else:
            for event in new:
                self._stats.feed(event)
        self._shown += [event.id for event in new]
        for event in new:
            self._projector.feed(event)
            visible_to_model = is_visible_to_model(event)
            self._count += visible_to_model
            self._fresh += visible_to_model and event.id > condensed
        self._taken = len(events)
        return self._projector.messages()

    def _begin_again(self, events: Sequence[Event], new: Sequence[Event]) -> Sequence[Event]:
        """Return the events visible now, to be projected from scratch."""
        if self._first_tokens:
            self._grown += max(self.tokens_sent - self._first_tokens, 0)
            self._grown_steps += self._stats.steps - self._steps_then
        if any(isinstance(event, RewindAction) for event in new):
            self._shown, new = [], live(events)
            self._stats, self._masked = HistoryStats(), set()
            self._changed_at = -1
        self._changed_at = max(self._changed_at, changed_at(new))
        for event in new:
            self._stats.feed(event)
            if isinstance(event, CondensationAction):
                self._masked.update(event.masked_event_ids)
        before = [events[event_id] for event_id in sorted(self._shown)]
        shown = visible([*before, *new], self._masked)
        self._masked.intersection_update([event.id for event in shown])
        self._start(Projector(self._changed_at))
        return shown

    def tokens(self, events: Sequence[Event]) -> int:
        """Return the estimated tokens of the next request."""
        messages = self.window(events)
        for message in messages[self._measured :]:
            self._size += size_of(message, self._provider)
        self._measured = len(messages)
        self._first_tokens = self._first_tokens or self.tokens_sent
        return self.tokens_sent

    def learn(self, prompt_tokens: int, output_tokens: int = 0) -> bool:
        """Take in the provider's token count for the request made from the last window, which had
        this cap for its reply. Return whether the count can be true."""
        credible = self.estimator.learn(self._size + self._tools_size, prompt_tokens)
        if credible:
            self.model_window.was_accepted(prompt_tokens + output_tokens)
        return credible

    @property
    def tokens_sent(self) -> int:
        """The estimated tokens of the request made from the last window."""
        return self.estimator.tokens(self._size + self._tools_size)

    def is_full(self, events: Sequence[Event]) -> bool:
        """Whether the next request must become shorter before it is sent."""
        tokens = self.tokens(events)
        return tokens > _SMALLEST_WINDOW * FULL and self.model_window.is_full(tokens)

    def due(self, events: Sequence[Event]) -> bool:
        """Whether the conversation should be condensed now, judging by its tokens."""
        view = self.view(events)
        return not self._gave_up(view) and view.tokens >= self._look_at and view.due

    def condense(
        self, events: Sequence[Event], permit: Callable[[], bool] = lambda: True
    ) -> CondensationAction | None:
        """Return what to take out of sight now, because the condenser decides so or the model asked
        for it; never the system text, what the user said, or the newest two steps. `permit` is
        asked once there is something to do, before a model is paid for it; if it says no, nothing
        changes."""
        view = replace(self.view(events), permit=permit)
        if view.tokens > _SMALLEST_WINDOW // 2:
            # Together no more than a half of what the window has beside what must stay; for one a
            # quarter, as of some text tokenizers make more tokens than of most.
            window = self.model_window
            room = window.prompt_tokens - self._staying_tokens()
            one = min(window.tokens * _RESULT_SHARE, room / 4)
            together = min(window.tokens * _REPLY_SHARE, room / 2)
            a_token = self.estimator.bytes_per_token
            self._limit_results(
                max(int(one * a_token), _LEAST_RESULT_CHARS),
                max(int(together * a_token), _LEAST_RESULT_CHARS),
            )
        if self._stats.request is not None:
            view = replace(view, forced="asked for", focus=self._stats.request, target=lambda: 0)
        try:
            done = self._condensed(view)
        except Postponed:
            return None
        except TurnInterrupted:
            self._account(view)
            raise
        if done is not None and not permit():
            return None
        self._stats.request = None
        return done

    def _condensed(self, view: View) -> CondensationAction | None:
        gave_up = self._gave_up(view)
        looks = not gave_up and (view.forced or view.tokens >= self._look_at)
        action = self._condenser.condense(view) if looks else None
        if looks and action is None and view.is_loaded:
            self._look_at = view.tokens * _LOOK_AGAIN
        if self._is_overfull(view, action):
            forced = replace(view, forced="the window is full")
            return self._checked(view, self._made_to_fit(forced, action))
        done = self._checked(view, action)
        return None if done is None or (gave_up and is_poor(done)) else done

    def _gave_up(self, view: View) -> bool:
        """Whether what there is can't be made shorter: two passes in a row saved next to nothing,
        and little has come since."""
        stats = self._stats
        grown = view.tokens > stats.tokens_left * _GROWN_AGAIN
        return stats.poor_passes >= _MOST_POOR_PASSES and not grown

    def _is_overfull(self, view: View, action: CondensationAction | None) -> bool:
        """Whether even after `action` the request would be refused, and may be shortened."""
        if not self.settings.enable_history_truncation or view.tokens <= _SMALLEST_WINDOW * FULL:
            return False
        if not self.model_window.is_full(view.tokens):
            return False
        return action is None or self.model_window.is_full(view.after(action).tokens)

    def _made_to_fit(
        self, view: View, done: CondensationAction | None = None
    ) -> CondensationAction | None:
        """Return `done` with what else must go out of sight for the request to be taken: old work,
        and if that is not enough, the longest of what is left."""
        most = int(self.model_window.prompt_tokens * FULL)
        for stage in (_WITHOUT_MODEL, MaskLongest()):
            left = view if done is None else view.after(done)
            if left.tokens <= most:
                break
            target = view.target if stage is _WITHOUT_MODEL else lambda: most
            more = stage.condense(replace(left, forced=view.forced, target=target))
            done = merged(done, more) if done and more else done or more
        return done

    def compact(self, events: Sequence[Event], focus: str = "") -> CondensationAction | None:
        """Condense all but the newest two steps, because the user asked for it, with a summary that
        keeps what `focus` names; None if there is nothing to condense."""
        view = replace(
            self.view(events), forced="asked for by the user", focus=focus, target=lambda: 0
        )
        try:
            action = self._condenser.condense(view) or DropOldest().condense(view)
        except TurnInterrupted:
            self._account(view)
            raise
        return self._checked(view, action)

    def _account(self, view: View) -> None:
        """Record what models were paid although nothing came of it."""
        if view.replies:
            self._record(
                self._numbered(view, failed_condensation("it was interrupted"), view.tokens)
            )

    def condense_overflow(
        self, events: Sequence[Event], output_tokens: int, words: str = ""
    ) -> CondensationAction | None:
        """Return what to take out of sight after a request, sent with this cap for its reply, was
        refused with these words because it did not fit: results first, then old steps, and if that
        is not enough, the longest of what is left; None if nothing can or may go. No model is
        asked, because someone is waiting for the answer. From now on the window counts as
        smaller, or the same text as more tokens."""
        tokens, counted = self.tokens(events), self.estimator.is_counted
        least = self.model_window.was_refused(tokens, output_tokens, words, counted=counted)
        self.estimator.learn_least(self._size + self._tools_size, least)
        view = self.view(events)
        if not self.settings.enable_history_truncation:
            return None
        half = min(view.tokens // 2, self._target(view.tokens))
        forced = replace(view, forced="it did not fit", target=lambda: half)
        return self._checked(view, self._made_to_fit(forced))

    def view(self, events: Sequence[Event]) -> View:
        """Return the session as condensers see it."""
        tokens = self.tokens(events)

        def load() -> Sequence[Event]:
            return visible([events[event_id] for event_id in sorted(self._shown)], self._masked)

        return View(
            tokens=tokens,
            count=self._count,
            fresh=self._fresh,
            next_id=len(events),
            load=load,
            original=lambda event_id: events[event_id],
            decide=lambda: self._decide(tokens),
            target=lambda: self._target(tokens),
            bytes_per_token=self.estimator.bytes_per_token,
            now=self._stats.now,
            failed_at=self._stats.failed_at,
            todo=self._stats.todo,
            dealt_with=self._stats.dealt_with,
            masked=frozenset(self._masked),
        )

    def _staying_tokens(self) -> int:
        return self.estimator.tokens(Size(self._stats.staying_bytes) + self._tools_size)

    def _target(self, tokens: int) -> int:
        most = int(self.model_window.prompt_tokens * self.settings.low_water)
        if not self._is_cost_aware:
            return most
        return target_tokens(self._staying_tokens(), self._growth(tokens), most)

    def _growth(self, tokens: int) -> float:
        """Return the growth in tokens per step since this process opened the session, without
        condensations."""
        grown = self._grown + tokens - self._first_tokens
        return grown / max(self._grown_steps + self._stats.steps - self._steps_then, 1)

    def _decide(self, tokens: int) -> Decision:
        if tokens <= _SMALLEST_WINDOW * self.settings.low_water:
            return _NOT_DUE
        context = self.model_window.prompt_tokens
        target, high_water = self._target(tokens), int(context * self.settings.high_water)
        worth = max(_LEAVE_ALONE_BELOW_TOKENS, context // _LEAVE_ALONE_BELOW_SHARE)
        least = min(worth, high_water) if self._is_cost_aware else 0
        if tokens <= max(target, least):
            return _NOT_DUE
        if self._prices is None:
            self._prices = (self._ask_prices(),)
        forecast = CostForecast(
            tokens=tokens,
            target=target,
            high_water=high_water,
            growth=self._growth(tokens),
            steps_left=steps_to_come(self._stats.steps),
        )
        return decide(forecast, self._prices[0])

    def _checked(self, view: View, action: CondensationAction | None) -> CondensationAction | None:
        """Return `action` with its numbers. If it would lose what must stay, or save nothing, the
        oldest steps are dropped instead, if that is better. Otherwise nothing is condensed, but
        what models were paid is recorded."""
        if action is None and not view.replies:
            return None
        action = action or failed_condensation("there was nothing to take")
        for condenser in (None, DropOldest(), DropOldest(brief=True)):
            because = replace(view, forced=view.decision.reason or "asked for")
            done = condenser.condense(because) if condenser else action
            if done is None:
                continue
            after, forgotten = view.after(done).tokens, set(done.forgotten_ids())
            lost = [message.id for message in view.said_by_user if message.id in forgotten]
            if not lost and after < view.tokens:
                return self._numbered(view, done, after)
            log.debug("%s: not made, it would lose %s and leave %d", done.reason, lost, after)
        if not view.replies:
            self._look_at = view.tokens * _LOOK_AGAIN
            return None
        saved_nothing = failed_condensation("it would have saved nothing", action.summariser_error)
        return self._numbered(view, saved_nothing, view.tokens)

    def _numbered(self, view: View, action: CondensationAction, after: int) -> CondensationAction:
        reason = action.reason
        measured = {TOKENS_BEFORE: float(view.tokens), TOKENS_AFTER: float(after)}
        numbers = {**view.decision.numbers, **action.numbers, **measured}
        paid = metrics(view.replies)
        action = action.model_copy(update={"numbers": numbers, "llm_metrics": paid})
        if is_poor(action) and self._stats.poor_passes + 1 >= _MOST_POOR_PASSES:
            reason += (
                "; for the second time in a row this saves less than 10 %: what is left can't be "
                "made shorter, so it is not tried again before it has grown by a quarter or the "
                "user speaks"
            )
        return action.model_copy(update={"reason": reason})


def failed_condensation(why: str, error: str = "") -> CondensationAction:
    """Return an event that condenses nothing but records the cost of a summary that failed."""
    return CondensationAction(
        forgotten_event_ids=(), summariser_error=error, reason=f"nothing was condensed: {why}"
    )


class PriceList(Protocol):
    """The methods of `llm/catalog.py`'s Catalog that are used here; memory knows no models."""

    def context_tokens(self, name: str) -> int: ...
    def cost(self, name: str, usage: Usage) -> float | None: ...


@dataclass(frozen=True)
class ModelNames:
    """Full names of the main model and of the one that writes summaries. `context_tokens` is the
    main model's window if the user set it (0: as catalogued), `max_output_tokens` the most that
    a reply of it may have."""

    main: str
    condenser: str
    max_output_tokens: int
    context_tokens: int = 0


def build_memory(
    settings: MemorySettings,
    tools: tuple[ToolSchema, ...],
    models: ModelNames,
    catalog: PriceList,
    ask: Ask | None,
    record: Callable[[CondensationAction], object] = lambda action: None,
    limit_results: Callable[[int, int], None] = lambda one, together: None,
) -> Memory:
    """Build the memory of a session. Raises ConfigError for settings that are not possible. Windows
    and prices are looked up in `catalog` on first use. See Memory for the callbacks."""
    window = Window(
        lambda: models.context_tokens or catalog.context_tokens(models.main),
        models.max_output_tokens,
        is_known=models.context_tokens > 0,
    )

    def prices() -> Prices | None:
        """The prices of a token, if all are known: cache reads and writes with the main model,
        prompt and output with the one that writes summaries."""
        costs = [
            catalog.cost(models.condenser, Usage(prompt_tokens=_SAMPLE_TOKENS)),
            catalog.cost(models.main, Usage(_SAMPLE_TOKENS, cache_read_tokens=_SAMPLE_TOKENS)),
            catalog.cost(models.main, Usage(_SAMPLE_TOKENS, cache_write_tokens=_SAMPLE_TOKENS)),
            catalog.cost(models.condenser, Usage(completion_tokens=_SAMPLE_TOKENS)),
        ]
        known = [cost / _SAMPLE_TOKENS for cost in costs if cost is not None]
        return Prices(*known) if len(known) == len(costs) else None

    def condenser_window() -> int:
        same = models.condenser == models.main
        return window.tokens if same else catalog.context_tokens(models.condenser)

    return Memory(
        window,
        settings,
        tools,
        choose_condenser(settings.condenser, Options(settings, ask, condenser_window)),
        prices,
        models.main.partition("/")[0],
        record=record,
        limit_results=limit_results,
    )


def choose_condenser(choice: str | Sequence[str], options: Options) -> Condenser:
    """Return the condenser of this name; a list of names is a pipeline. Raises ConfigError for
    unknown names and for settings that are not possible."""
    if not isinstance(choice, str):
        if not choice:
            raise ConfigError("memory.condenser is an empty list", hint='to never condense: "noop"')
        return Pipeline([choose_condenser(name, options) for name in choice])
    kind = CONDENSERS.get(choice)
    if kind is None:
        known = sorted({*CONDENSERS.file_names(), *CONDENSERS.outside_names()})
        near = difflib.get_close_matches(choice, known, 1, 0.5)
        raise ConfigError(
            f"memory.condenser: there is no condenser {choice!r}",
            hint=f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}",
        )
    return kind(options)
