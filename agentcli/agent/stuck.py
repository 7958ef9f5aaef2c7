"""Detect that the agent is stuck: it is warned once, and stopped if it goes on like that.

Everything is derived from the newest events of the turn, so the result is the same after a resume,
and the cost does not grow with the session. The comparison leaves out what differs from run to run
by itself (times, process ids, names of temporary files); everything else counts, to the last byte
of an output that the model saw only a part of. An edit or a write that brings a file into a new
state is progress: nothing before it counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, takewhile

from agentcli.agent.ending import Ending
from agentcli.events import Action, Event, Observation, Source, texts
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    IPythonRunCellAction,
    MessageAction,
    is_user_message,
)
from agentcli.events.conversation import newest_first
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    ReplyDiscardedObservation,
    UserRejectObservation,
)
from agentcli.sessions.state import AgentState, State
from agentcli.workspace.private import open_regular

_MOST_BYTES = 4_000_000
"""The most to read of an output kept in a file; comparing that takes a tenth of a second."""
_EXPLAINING_ARGUMENTS = frozenset({"thought", "reason", "security_risk", "risk"})
"""Arguments that say why something is done, not what is done."""

_TEMPORARY = re.compile(texts.TEMPORARY)
_CLOCK = re.compile(f"{texts.DATES}|{texts.CLOCKS}|{texts.SECONDS}")
_VOLATILE = re.compile("|".join((texts.DURATIONS, texts.ADDRESSES, texts.PIDS, texts.IDS)))
_LOOKS_AT_A_LOG = re.compile(r"\btail\b|\.log\b|\blogs?\b|\bjournalctl\b|\bdmesg\b")
_WAITS = re.compile(
    r"\bsleep\b|\bwait\b|\bwatch\b|\binotifywait\b|\buntil\b|\bwhile\s+!|--wait\b|--follow\b"
    r"|\btail\b(?:(?!\btail\b)[^|;&])*? -[a-zA-Z]*f"
)


def action_key(action: Action) -> str:
    """Return a key that is equal for two calls that ask for the same, for whatever reason."""
    call = action.tool_call_metadata
    if call is None:
        return f"{action.kind} {action.message}"
    try:
        arguments = json.loads(call.raw_arguments or "{}")
        if isinstance(arguments, dict):
            arguments = {k: v for k, v in arguments.items() if k not in _EXPLAINING_ARGUMENTS}
        text = json.dumps(arguments, sort_keys=True)
    except (ValueError, RecursionError):
        text = call.raw_arguments
    return f"{call.function_name} {_TEMPORARY.sub('~', text)}"


def outcome_key(action: Action, observation: Observation) -> str:
    """Return a key that is equal for equal actions' results if nothing happened in between."""
    keep_clock = isinstance(action, CmdRunAction) and bool(_LOOKS_AT_A_LOG.search(action.command))
    parts = [observation.kind, _digest(observation.content, keep_clock)]
    if isinstance(observation, CmdOutputObservation):
        metadata = observation.metadata
        parts.append(str(metadata.exit_code))
        if metadata.truncated and metadata.full_output_path:
            parts.append(_file_digest(metadata.full_output_path, keep_clock))
    parts += getattr(observation, "image_urls", ())
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def is_failure(observation: Observation) -> bool:
    """Whether the action could not be done at all. A command that ran and failed is no such
    failure: its output says more than that."""
    if isinstance(observation, ErrorObservation | UserRejectObservation):
        return True
    return getattr(observation, "error", False) is True


def waits(action: Action) -> bool:
    """Whether the action waits for something outside, so that repeating it is sensible."""
    if isinstance(action, CmdRunAction):
        return action.job is not None or bool(_WAITS.search(action.command))
    return isinstance(action, IPythonRunCellAction) and bool(_WAITS.search(action.code))


def digest_after(observation: Observation) -> tuple[str, str] | None:
    """Return the changed file and the digest of its new content; None if nothing changed."""
    if isinstance(observation, FileEditObservation | FileWriteObservation) and observation.diff:
        return observation.path, observation.digest
    return None


def digest_before(observation: Observation) -> tuple[str, str] | None:
    """Return the file that was read or edited, and the digest of its content then, if known."""
    if isinstance(observation, FileReadObservation) and observation.digest:
        return observation.path, observation.digest
    if isinstance(observation, FileEditObservation) and observation.old_content is not None:
        before = observation.old_content.encode("utf-8", "surrogateescape")
        return observation.path, hashlib.sha256(before).hexdigest()
    return None


def text_key(text: str) -> str:
    """Return a key that is equal for two messages with the same words."""
    return _digest(" ".join(text.split()), False)


@lru_cache(maxsize=64)
def _digest(text: str, keep_clock: bool) -> str:
    """Digest the text without what changes by itself. In a log, the time of a line counts."""
    if not keep_clock:
        text = _CLOCK.sub("~", text)
    text = _VOLATILE.sub("~", _TEMPORARY.sub("~", text))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _file_digest(path: str, keep_clock: bool) -> str:
    """Digest the first and last 2 MB of an output kept in a file; empty if that is gone."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            return _bytes_digest(path, status.st_size, status.st_mtime_ns, keep_clock)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=64)
def _bytes_digest(path: str, size: int, changed_ns: int, keep_clock: bool) -> str:
    with open_regular(path) as file:
        data = file.read(_MOST_BYTES // 2)
        if size > _MOST_BYTES:
            file.seek(size - _MOST_BYTES // 2)
        data += file.read(_MOST_BYTES // 2)
    return _digest(data.decode("utf-8", "replace"), keep_clock)


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
