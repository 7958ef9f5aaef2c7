"""Detects that the agent is stuck: it is warned once, and stopped if it goes on like that.

Everything is derived from the newest events of the turn, so the result is the same after a resume,
and the cost does not grow with the session. `fingerprints` defines what counts as different. An
edit or a write that brings a file into a new state is progress: nothing before it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from agentcli.agent.ending import Ending
from agentcli.agent.fingerprints import (
    action_key,
    digest_after,
    digest_before,
    is_failure,
    outcome_key,
    text_key,
    waits,
)
from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import CondensationAction, MessageAction, is_user_message
from agentcli.events.live import newest_first
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    ErrorObservation,
    ReplyDiscardedObservation,
)
from agentcli.sessions.state import AgentState, State

STUCK = "stuck"
SAME_RESULT, SAME_ERROR, SAME_WORDS, CONDENSATIONS = 4, 3, 3, 10
CYCLES = ((2, 3), (3, 3))
"""Number of steps in a cycle, and how often it must be repeated."""
WAITING = 20
"""How often an action that waits for something outside may be repeated with the same result."""
_RULES = frozenset({"same_result", "same_error", "same_words", "cycle", "condensations"})
_RECENT_EVENTS = 300
"""How many events to look at; that many are in memory. Enough for 40 steps of waiting, each with a
text and a decision."""
_NEWEST_EVENTS = 24
"""How many events to look at first, enough for most sets of four steps."""
_STOPPED_AFTER = 12
"""Number of steps of one cycle after which a nudge clearly had no effect."""


@dataclass
class _Step:
    """A reply with its results."""

    reply_id: str
    actions: list[Action] = field(default_factory=list)
    results: dict[int, Observation] = field(default_factory=dict)
    text: str = ""
    faulty: bool = False
    progress: bool = False
    after_user_message: bool = False
    """Whether the user said something just before."""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(action_key(action) for action in self.actions))

    @property
    def answered(self) -> bool:
        return bool(self.actions) and all(action.id in self.results for action in self.actions)

    @property
    def failed(self) -> bool:
        return self.answered and all(is_failure(result) for result in self.results.values())

    @property
    def waits(self) -> bool:
        return any(waits(action) for action in self.actions)

    def same_calls(self, other: _Step) -> bool:
        return self.answered and other.answered and self.keys == other.keys

    def same(self, other: _Step) -> bool:
        """Whether both have the same calls with the same results. Comparing results is costly, so
        it comes last."""
        return self.same_calls(other) and self.outcomes() == other.outcomes()

    def outcomes(self) -> frozenset[tuple[str, str]]:
        """What its calls came to; empty if it has none, or some are not answered."""
        if not self.answered:
            return frozenset()
        return frozenset((action_key(a), outcome_key(a, self.results[a.id])) for a in self.actions)


@dataclass
class _RecentSteps:
    """The newest steps of the turn, oldest first. `fresh` is the index of the first step after the
    last nudge, `nudged` are the rules that nudged, and `condensed` has for each condensation since
    then how many steps had been begun before it."""

    steps: list[_Step] = field(default_factory=list)
    nudged: set[str] = field(default_factory=set)
    fresh: int = 0
    condensed: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Finding:
    """A rule that applies: what repeats, and what could help."""

    rule: str
    what: str
    advice: str


def check_progress(
    events: Sequence[Event], state: State, *, interactive: bool
) -> MessageAction | Ending | None:
    """Return what to tell the model before the next call, or how to end the turn; None if the agent
    makes progress.

    `events` are all events of a session. If there is a user to talk to (`interactive`), only what
    follows their last message counts; otherwise a message that reaches the working agent changes
    nothing.
    """
    if not _may_repeat(_read(events, _NEWEST_EVENTS, interactive=interactive)):
        return None
    recent = _read(events, _RECENT_EVENTS, interactive=interactive)
    finding = _finding(recent)
    if finding is None:
        return None
    if finding.rule not in recent.nudged:
        return MessageAction(content=_nudge(finding), source=Source.ENVIRONMENT, nudge=finding.rule)
    return Ending(
        AgentState.ERROR,
        STUCK,
        f"the agent keeps going in circles, even after a warning: {finding.what}",
        exit_code=1,
        hint=f'say what it should do instead: agent resume {state.session_id} "…"',
    )


def _nudge(finding: _Finding) -> str:
    return (
        f"[You may be stuck: {finding.what}. {finding.advice} If you can't get any further, say "
        "what stands in the way and end the task. If this goes on as it is, the run is stopped.]"
    )


def _may_repeat(newest: _RecentSteps) -> bool:
    """Whether any rule could apply. All of them need a newest step whose calls were made in one of
    the few steps before it too, or a condensation; most steps are nothing like that, and looking
    further back would be in vain."""
    longest_cycle = max(period for period, _ in CYCLES)
    if newest.condensed or len(newest.steps) <= longest_cycle:
        return True
    last, *before = newest.steps[: -longest_cycle - 2 : -1]
    return any(step.keys == last.keys for step in before)


def _read(events: Sequence[Event], most: int, *, interactive: bool) -> _RecentSteps:
    newest = list(islice(newest_first(events), most))
    scope: list[Event] = []
    for event in newest:
        if _bounds_turn(event, interactive=interactive):
            break
        scope.append(event)
    whole = len(scope) < len(newest) or len(newest) < most
    return _recent_steps(scope[::-1], whole=whole)


def _bounds_turn(event: Event, *, interactive: bool) -> bool:
    if is_user_message(event):
        return interactive or event.delivery != "steer"
    return isinstance(event, AgentStateChangedObservation) and event.reason == STUCK


def _recent_steps(events: Sequence[Event], *, whole: bool) -> _RecentSteps:
    recent = _RecentSteps()
    steps: dict[str, _Step] = {}
    owner: dict[int, _Step] = {}
    after_user_message = False
    for event in events:
        if event.reply is not None:
            step = steps.setdefault(
                event.reply.id, _Step(event.reply.id, after_user_message=after_user_message)
            )
            owner[event.id] = step
            _add(step, event)
            after_user_message = False
        elif isinstance(event, CondensationAction):
            recent.condensed.append(len(steps))
        elif isinstance(event, ReplyDiscardedObservation):
            steps.pop(event.reply_id, None)
        elif isinstance(event, MessageAction):
            after_user_message = after_user_message or event.source is Source.USER
            if event.nudge is not None and event.nudge in _RULES:
                recent.nudged.add(event.nudge)
                recent.fresh = len(steps)
                recent.condensed.clear()
        elif isinstance(event, DecisionObservation):
            continue
        elif isinstance(event, Observation) and event.cause in owner:
            owner[event.cause].results[event.cause] = event
    recent.steps = list(steps.values())
    if not whole and recent.steps:
        # The oldest step may be incomplete.
        recent.steps, recent.fresh = recent.steps[1:], max(recent.fresh - 1, 0)
        recent.condensed = [max(before - 1, 0) for before in recent.condensed]
    _mark_progress(recent.steps)
    return recent


def _add(step: _Step, event: Event) -> None:
    if isinstance(event, MessageAction):
        step.text = event.content
    elif isinstance(event, Action) and event.tool_call_metadata is not None:
        step.actions.append(event)
    elif isinstance(event, ErrorObservation):
        step.faulty = True


def _mark_progress(steps: Sequence[_Step]) -> None:
    seen: set[tuple[str, str]] = set()
    for step in steps:
        for result in step.results.values():
            if (before := digest_before(result)) is not None:
                seen.add(before)
            if (left := digest_after(result)) is not None:
                step.progress = step.progress or left not in seen
                seen.add(left)


def _finding(recent: _RecentSteps) -> _Finding | None:
    begin = max((n + 1 for n, step in enumerate(recent.steps) if step.progress), default=0)
    all_steps = recent.steps[begin:]
    fresh = recent.steps[max(begin, recent.fresh) :]
    if fresh:
        found = _same_error(fresh) or _same_result(fresh) or _same_words(fresh)
        if found := found or _cycle(fresh, all_steps, told="cycle" in recent.nudged):
            return found
    return _condensed_in_vain(recent)


def _condensed_in_vain(recent: _RecentSteps) -> _Finding | None:
    """Find a model that loses what it looked up to a condensation, looks it up again, and so on.
    Condensations with anything new between them are those of a working agent, however many."""
    if len(recent.condensed) < CONDENSATIONS:
        return None
    seen: set[frozenset[tuple[str, str]]] = {frozenset()}
    newest_discovery = 0
    for number, step in enumerate(recent.steps):
        if step.progress or step.outcomes() not in seen:
            newest_discovery = number
        seen.add(step.outcomes())
    in_vain = sum(before > newest_discovery for before in recent.condensed)
    if in_vain < CONDENSATIONS:
        return None
    return _Finding(
        "condensations",
        f"the conversation was shortened {in_vain} times, and nothing new came in between",
        "Work in smaller pieces: read less at once, have commands print less, and note what you "
        "find.",
    )


def _repetitions(steps: Sequence[_Step], most: int, *, results: bool) -> int:
    """Count how many of the newest steps are like the newest one, up to `most`."""
    newest = steps[-1]

    def is_like(step: _Step) -> bool:
        return newest.same(step) if results else newest.same_calls(step) and step.failed

    return 1 + sum(1 for _ in takewhile(is_like, islice(reversed(steps), 1, most)))


def _same_error(steps: Sequence[_Step]) -> _Finding | None:
    newest = steps[-1]
    needed = WAITING if newest.waits else SAME_ERROR
    if not newest.failed or _repetitions(steps, needed, results=False) < needed:
        return None
    return _Finding(
        "same_error",
        f"{_named(newest)} failed {needed} times in a row",
        "It will fail again. Read the error, find its cause, and try something else.",
    )


def _same_result(steps: Sequence[_Step]) -> _Finding | None:
    newest = steps[-1]
    needed = WAITING if newest.waits else SAME_RESULT
    if not newest.answered or _repetitions(steps, needed, results=True) < needed:
        return None
    advice = "Look for another way to the goal, or for what you can do in the meantime."
    if not newest.waits:
        advice = (
            "The result will not change by itself: change something first, or look elsewhere. "
            "To wait for something, sleep in the command."
        )
    return _Finding("same_result", f"{_named(newest)} had the same result {needed} times", advice)


def _same_words(steps: Sequence[_Step]) -> _Finding | None:
    newest = steps[-SAME_WORDS:]
    spoken = [step for step in newest if not step.actions and not step.faulty]
    if len(spoken) < SAME_WORDS or any(step.after_user_message for step in newest[1:]):
        return None
    if len({text_key(step.text) for step in spoken}) > 1:
        return None
    return _Finding(
        "same_words",
        f"you said the same {SAME_WORDS} times and did nothing between",
        "Do what is asked of you with the tools, or say what you need.",
    )


def _cycle(fresh: Sequence[_Step], steps: Sequence[_Step], *, told: bool) -> _Finding | None:
    for period, times in CYCLES:
        again = told and len(fresh) >= period and _repeats(steps, period, _STOPPED_AFTER)
        if again or _repeats(fresh, period, period * times):
            names = ", ".join(dict.fromkeys(_named(step) for step in fresh[-period:]))
            return _Finding(
                "cycle",
                f"the same {period} steps go round and round with the same results: {names}",
                "Nothing changes between them: change something first, or try another way.",
            )
    return None


def _repeats(steps: Sequence[_Step], period: int, length: int) -> bool:
    """Whether the newest `length` steps repeat the same `period` different ones over and over."""
    newest = steps[-length:]
    if newest and any(step.waits for step in newest[-period:]):
        newest = steps[-period * WAITING :]
        length = period * WAITING
    if len(newest) < length or newest[-1].same_calls(newest[-2]):
        return False
    pairs = zip(newest, newest[period:], strict=False)
    return all(step.same(later) for step, later in pairs)


def _named(step: _Step) -> str:
    """Return the calls of a step in a few words, such as `$ make; read x.py`."""
    names = [action.message for action in step.actions[:2]]
    more = len(step.actions) - len(names)
    return "; ".join(f"`{name[:80]}`" for name in names) + (f" and {more} more" if more else "")
