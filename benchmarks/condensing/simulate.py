"""Replays a session under a policy: what is sent, and what becomes of what must be known again.

Beside that, the best moments to condense, where only prompt tokens count: a step reads its prefix
from the cache and writes what has come; a condensation writes the prefix that is left, and has what
goes read and summed up. `optimum` tries all moments, from the last step backwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from agentcli.events import Event, ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import (
    CondensationAction,
    MessageAction,
    RecallAction,
    SystemMessageAction,
)
from agentcli.events.observations import RecallObservation
from agentcli.memory.memory import Memory
from agentcli.memory.tokens import BYTES_PER_TOKEN, size_of, tools_size
from agentcli.memory.window import SUMMARY_TOKENS, CostForecast, Prices, decide, steps_to_come
from agentcli.messages import FinishReason, Message, Reply, Request, ToolSchema, Usage
from benchmarks.condensing.generator import Call, Step
from benchmarks.condensing.policies import Policy, Setting
from benchmarks.condensing.prices import Model, PriceList, Purpose, Sent

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_SYSTEM = "You help with code. " * 150
_TOOLS = tuple(
    ToolSchema(name, "What it does and how it is called. " * 14, {"type": "object"})
    for name in ("bash", "read", "edit", "write", "grep", "glob", "todo", "recall", "finish")
)
"""With the system text, some 2,000 tokens, as the fixed prompt of `agent` has."""
_TOOL_TOKENS = int(tools_size(_TOOLS).text / BYTES_PER_TOKEN)
_MOST_RECALLED_CHARS = 20_000
_HITS_CHARS = 2_500
"""Of an answer to a recall by words: up to twenty lines of about 120 characters."""
_NAMED_SPAN = 12
"""Events in a range such as [12-18] up to which one knows which of them to ask for."""
_OUT_OF_REACH = 9
_CALL_TOKENS = 20
_SUMMARY_LINES = 40
_SUMMARY_LINE = (
    "what was done here, with names and paths, its outcome, and what follows from it: " * 2
)
_EVENTS_MARK = "The events to sum up:\n"
_SAID_MARK = "What the user said "
_IDS = re.compile(r"\[(\d+)(?:-(\d+))?\]")
_RANGE = re.compile(r"[Ee]vents (\d+) to (\d+)")
_TOLD = re.compile(r"^\[(\d+)\]", re.MULTILINE)


@dataclass
class Facts:
    """What became of the facts that were needed: `visible` in the window; `named` by the id of
    their event in a note or a line of a summary, one call away; `searched` for, as only the range
    of all that went is told, two calls away for who knows that there is something; or `lost`."""

    visible: int = 0
    named: int = 0
    searched: int = 0
    lost: int = 0

    def __add__(self, other: Facts) -> Facts:
        return Facts(
            self.visible + other.visible,
            self.named + other.named,
            self.searched + other.searched,
            self.lost + other.lost,
        )

    @property
    def needed(self) -> int:
        return self.visible + self.named + self.searched + self.lost

    @property
    def known(self) -> float:
        """The share that was visible or named."""
        return (self.visible + self.named) / self.needed if self.needed else 1.0

    @property
    def seen(self) -> float:
        """The share that was visible."""
        return self.visible / self.needed if self.needed else 1.0


@dataclass
class Outcome:
    """All requests of a session, the summariser's too, and how it went."""

    sent: list[Sent] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    condensations: list[CondensationAction] = field(default_factory=list)


def replay(steps: Sequence[Step], policy: Policy, model: Model, window: int) -> Outcome:
    """What `model` with a `window` of so many tokens is sent when `steps` are gone through under
    `policy`. The work is the same under every policy, but for what must be recalled."""
    return _Replay(policy, model, window).run(steps)


class _Replay:
    def __init__(self, policy: Policy, model: Model, window: int) -> None:
        prices = PriceList({model.name: model}, window)
        self.outcome = Outcome()
        self.log: list[Event] = []
        setting = Setting(model.name, prices, self._summarise, _TOOLS)
        self.memory: Memory = policy.memory(setting)
        self._each_time = policy.each_time(setting) if policy.each_time is not None else None
        self._now = _BEGIN
        self._sent: list[Message] = []
        self._idle_s = 0.0
        self._replies = 0
        self._holders: dict[str, list[int]] = {}
        self._fact_of: dict[int, str] = {}
        self._forgotten: set[int] = set()
        self._masked: set[int] = set()
        self._record(SystemMessageAction(content=_SYSTEM))

    def run(self, steps: Sequence[Step]) -> Outcome:
        for step in steps:
            if step.said:
                self._record(MessageAction(content=step.said, source=Source.USER))
            self._pass(step.wait_s)
            for fact in step.needs:
                self._look_up(fact)
            self._request("step", *_reply_size(step))
            self._reply(step.text, step.calls)
        return self.outcome

    def _look_up(self, fact: str) -> None:
        """Count where `fact` is, and recall it where that is possible and needed."""
        holders = self._holders.get(fact, [])
        facts = self.outcome.facts
        if any(i not in self._forgotten and i not in self._masked for i in holders):
            facts.visible += 1
            return
        calls = [self._calls_to(event_id) for event_id in holders]
        nearest = min(zip(calls, holders, strict=True), default=(0, -1), key=_by_calls)
        if nearest[0] == 0:
            facts.lost += 1
            return
        if nearest[0] == 1:
            facts.named += 1
        else:
            facts.searched += 1
            self._recall(fact, "x" * _HITS_CHARS, query="words", holds=False)
        told = self.log[nearest[1]]
        content = getattr(told, "content", "")[:_MOST_RECALLED_CHARS]
        self._recall(fact, content, query=str(nearest[1]), holds=True)

    def _calls_to(self, event_id: int) -> int:
        """Calls of recall that it takes to see this event again; 0 when nothing tells of it."""
        if event_id not in self._forgotten:
            return 1
        calls = 0
        for text in self._summaries():
            for match in _IDS.finditer(text):
                first, last = int(match[1]), int(match[2] or match[1])
                if first <= event_id <= last and last - first < _NAMED_SPAN:
                    return 1
            if any(int(m[1]) <= event_id <= int(m[2]) for m in _RANGE.finditer(text)):
                calls = 2
        return calls

    def _summaries(self) -> list[str]:
        shown = [c for c in self.outcome.condensations if c.id not in self._forgotten]
        return [action.summary for action in shown if action.summary]

    def _recall(self, fact: str, content: str, query: str, *, holds: bool) -> None:
        arguments = f'{{"event": "{query}"}}'
        action = RecallAction(recall_type="event", query=query)
        result = RecallObservation(recall_type="event", content=content)
        self._request("recall", 1, len(arguments))
        # What the search shows tells that the fact is somewhere, not what it is.
        told = fact if holds else f"search {len(self.log)}"
        self._reply("", (Call("recall", arguments, action, result, told),))
        self._pass(5.0)

    def _request(self, purpose: Purpose, calls: int, chars: int) -> None:
        """Send a request whose reply has so many calls and characters."""
        self._condense()
        messages = list(self.memory.window(self.log))
        new = messages[_shared(self._sent, messages) :]
        prompt = self.memory.tokens(self.log)
        self.outcome.sent.append(
            Sent(
                prompt=prompt,
                shared=prompt - _tokens(new) if self._sent else 0,
                fixed=_tokens(messages[:1]) + _TOOL_TOKENS,
                blocks_after_shared=sum(max(1, len(message.tool_calls)) for message in new),
                idle_s=self._idle_s,
                output=int(chars / BYTES_PER_TOKEN) + _CALL_TOKENS * calls,
                purpose=purpose,
            )
        )
        self._sent = messages
        self._idle_s = 0.0

    def _condense(self) -> None:
        if self._each_time is not None:
            action = self._each_time.condense(self.memory.view(self.log))
        else:
            action = self.memory.condense(self.log)
        if action is None:
            return
        event = self._record(action)
        assert isinstance(event, CondensationAction)
        self.outcome.condensations.append(event)
        self._forgotten.update(event.forgotten_ids())
        self._masked.update(event.masked_event_ids)

    def _reply(self, text: str, calls: Sequence[Call]) -> None:
        self._replies += 1
        parts: list[tuple[Event, Call | None]] = []
        if text or not calls:
            parts.append((MessageAction(content=text), None))
        parts += [(call.action, call) for call in calls]
        asked = []
        for index, (part, call) in enumerate(parts):
            place = ReplyPart(id=f"r{self._replies}", index=index, total=len(parts))
            update: dict[str, Any] = {"reply": place}
            if call is not None:
                update["tool_call_metadata"] = ToolCallMetadata(
                    function_name=call.tool,
                    tool_call_id=f"call_{self._replies}_{index}",
                    raw_arguments=call.arguments,
                )
            event = self._record(part.model_copy(update=update))
            asked += [(event.id, call)] if call is not None else []
        for event_id, call in asked:
            result = self._record(call.result.model_copy(update={"cause": event_id}))
            self._holders.setdefault(call.fact, []).append(result.id)

    def _record(self, event: Event) -> Event:
        stamped = event.model_copy(update={"id": len(self.log), "timestamp": self._now})
        self.log.append(stamped)
        return stamped

    def _pass(self, seconds: float) -> None:
        self._idle_s += seconds
        self._now += timedelta(seconds=seconds)

    def _summarise(self, request: Request, unrecorded_usd: float) -> Reply:
        prompt = sum(len(message.content) for message in request.messages)
        text = summary(request.messages[-1].content)
        usage = Usage(int(prompt / BYTES_PER_TOKEN), int(len(text) / BYTES_PER_TOKEN))
        self.outcome.sent.append(
            Sent(
                prompt=usage.prompt_tokens,
                shared=0,
                fixed=0,
                blocks_after_shared=0,
                idle_s=0.0,
                output=usage.completion_tokens,
                purpose="summary",
            )
        )
        return Reply(
            text=text,
            tool_calls=(),
            finish_reason=FinishReason.STOP,
            usage=usage,
            model="stand-in",
            response_id="",
        )


def summary(material: str) -> str:
    """Stands for what a model makes of `material`: at most forty lines, as long as the model is
    told to be, each naming the events it stands for. Half of the lines are kept for what an
    earlier summary said; where there is more to tell than lines, neighbours share one."""
    earlier, _, events = material.rpartition(_EVENTS_MARK)
    old = [(int(m[1]), int(m[2] or m[1])) for m in _IDS.finditer(earlier.partition(_SAID_MARK)[0])]
    new = [(int(m[1]), int(m[1])) for m in _TOLD.finditer(events)]
    half = _SUMMARY_LINES // 2
    spans = [*_merged(old, half), *_merged(new, _SUMMARY_LINES - half)]
    lines = [f"{n}. {_SUMMARY_LINE}[{first}-{last}]" for n, (first, last) in enumerate(spans, 1)]
    return "## Done\n" + "\n".join(lines)


def _merged(spans: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most `most` spans that cover `spans`."""
    size = max(1, -(-len(spans) // most))
    groups = [spans[start : start + size] for start in range(0, len(spans), size)]
    return [(min(a for a, _ in group), max(b for _, b in group)) for group in groups]


def _reply_size(step: Step) -> tuple[int, int]:
    return len(step.calls), len(step.text) + sum(len(call.arguments) for call in step.calls)


def _tokens(messages: Sequence[Message]) -> int:
    return int(sum(size_of(message).text for message in messages) / BYTES_PER_TOKEN)


def _shared(before: list[Message], now: list[Message]) -> int:
    """How many messages both begin with."""
    if before == now[: len(before)]:
        return len(before)
    pairs = zip(before, now, strict=False)
    return next(
        (n for n, (was, is_) in enumerate(pairs) if not _same(was, is_)), min(len(before), len(now))
    )


def _same(was: Message, is_: Message) -> bool:
    # Messages are compared by identity elsewhere, and built anew after each condensation.
    return was is is_ or (
        was.role is is_.role and was.content == is_.content and was.tool_calls == is_.tool_calls
    )


def _by_calls(found: tuple[int, int]) -> int:
    calls, _ = found
    return calls or _OUT_OF_REACH


@dataclass(frozen=True)
class Course:
    """A session in tokens: what the first request has, what each further step adds; what a
    condensation leaves, and the mark that no request may pass."""

    start: int
    growth: Sequence[int]
    target: int
    mark: int


Due = Callable[[int, int, float], bool]
"""Of the tokens of the next request, the steps so far, and the mean growth since the last
condensation: whether to condense."""


def cost_of_step(tokens: int, new: int, prices: Prices) -> float:
    return (tokens - new) * prices.cache_read + new * prices.cache_write


def cost_of_condensing(tokens: int, target: int, prices: Prices) -> float:
    """A summary of what goes; the prefix that is left is written with the step that follows."""
    return (tokens - target) * prices.prompt + SUMMARY_TOKENS * prices.output


def followed(course: Course, prices: Prices, due: Due) -> tuple[float, list[int]]:
    """What the session costs when it is condensed where `due` says so, and at which steps that
    was. Above the mark it is due in any case."""
    tokens, new, total = course.start, course.start, 0.0
    began, tokens_then, points = 0, course.start, []
    for number, growth in enumerate([*course.growth, 0]):
        mean = (tokens - tokens_then) / max(number - began, 1)
        wanted = tokens > course.mark or due(tokens, number, mean)
        if wanted and tokens > course.target:
            total += cost_of_condensing(tokens, course.target, prices)
            tokens = new = course.target
            began, tokens_then = number, tokens
            points.append(number)
        total += cost_of_step(tokens, new, prices)
        tokens, new = tokens + growth, growth
    return total, points


def ours(course: Course, prices: Prices) -> Due:
    """As a memory decides."""

    def due(tokens: int, steps: int, growth: float) -> bool:
        outlook = CostForecast(tokens, course.target, course.mark, growth, steps_to_come(steps))
        return decide(outlook, prices).due

    return due


def never(tokens: int, steps: int, growth: float) -> bool:
    """Only where the mark forces it."""
    return False


def optimum(course: Course, prices: Prices) -> tuple[float, list[int]]:
    """The least that the session can cost, and the steps to condense at for that."""
    steps = len(course.growth) + 1
    best = [inf] * steps + [0.0]
    following = [steps] * (steps + 1)
    for begin in range(steps - 1, 0, -1):
        best[begin], following[begin] = _best_stretch(course, prices, begin, course.target, best)
    least, point = _best_stretch(course, prices, 0, course.start, best)
    points = []
    while point < steps:
        points.append(point)
        point = following[point]
    return least, points


def _best_stretch(
    course: Course, prices: Prices, begin: int, tokens: int, best: Sequence[float]
) -> tuple[float, int]:
    """The least cost from step `begin` on, with a prefix of `tokens` that is all new, and the step
    before which to condense next; the number of steps for never."""
    steps = len(course.growth) + 1
    total = cost_of_step(tokens, tokens, prices)
    least, where = inf, steps
    for step in range(begin + 1, steps):
        tokens += course.growth[step - 1]
        if tokens > course.target:
            there = total + cost_of_condensing(tokens, course.target, prices) + best[step]
            if there < least:
                least, where = there, step
        if tokens > course.mark:
            return least, where
        total += cost_of_step(tokens, course.growth[step - 1], prices)
    return (total, steps) if total < least else (least, where)
