"""Arranges the events of a session into turns and steps, and renders them as a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from agentcli.events import Action, Event, LLMMetrics, Observation, Source
from agentcli.events.actions import (
    CondensationAction,
    MessageAction,
    SystemMessageAction,
    is_user_message,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DelegateStartedObservation,
    ErrorObservation,
)
from agentcli.page.entries import Entries
from agentcli.page.markup import Clipper, attribute, element, fold, line, prose
from agentcli.ui.notices import metrics_line, note
from agentcli.ui.summary import count, duration, money
from agentcli.ui.text import plain


@dataclass
class Step:
    """One reply of the model with everything until the next. `number` counts from 1."""

    number: int
    metrics: LLMMetrics | None
    events: list[Event] = field(default_factory=list)

    @property
    def first(self) -> Event:
        return self.events[0]


@dataclass
class Turn:
    """Everything from one message of the user to the next. `said` is None for what comes before
    the first; `events` are those that belong to no step."""

    number: int
    said: MessageAction | None
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def first(self) -> Event | None:
        begun = [*self.events[:1], *(step.first for step in self.steps[:1])]
        return min(begun, key=lambda event: event.id, default=None)


@dataclass(frozen=True)
class History:
    """All events of a session with its header. `children` are the available sessions that it
    delegated to, by id."""

    header: Mapping[str, Any]
    events: Sequence[Event]
    children: Mapping[str, History] = field(default_factory=dict)

    @cached_property
    def belonging(self) -> Mapping[int, Sequence[Event]]:
        """The events that belong to each call, by its id: decisions, children, results."""
        calls = {e.id for e in self.events if isinstance(e, Action) and e.runnable}
        found: dict[int, list[Event]] = {}
        for event in self.events:
            call = _call_of(event)
            if call in calls and call != event.id:
                found.setdefault(call, []).append(event)
        return found

    @cached_property
    def turns(self) -> Sequence[Turn]:
        """The turns, without the events that are part of a call's entry."""
        inside = {id(event) for events in self.belonging.values() for event in events}
        return _turns(event for event in self.events if id(event) not in inside)

    @property
    def steps(self) -> Iterator[Step]:
        return (step for turn in self.turns for step in turn.steps)


def _call_of(event: Event) -> int:
    """Return the id of the call that an event belongs to, -1 if there is none."""
    if isinstance(event, DelegateStartedObservation):
        return event.action_id
    return event.cause if isinstance(event, Observation) and event.cause is not None else -1


def _turns(events: Iterable[Event]) -> list[Turn]:
    turns = [Turn(0, None)]
    step: Step | None = None
    reply = ""
    steps = 0
    for event in events:
        if is_user_message(event) and event.delivery != "steer":
            turns.append(Turn(len(turns), event))
            step = None
        elif event.reply is not None and event.reply.id != reply:
            reply = event.reply.id
            steps += 1
            step = Step(steps, event.llm_metrics)
            turns[-1].steps.append(step)
        (step or turns[-1]).events.append(event)
    return [turn for turn in turns if turn.events or turn.steps]


_DEEPEST = 5
"""Levels of children that are shown; those below are only named."""


class Timeline:
    """Renders one session. The timelines of its children lie inside the calls that started them.
    `shown` has the children on the page so far, across all levels, each with the beginning of the
    ids of its elements."""

    def __init__(
        self,
        history: History,
        clipper: Clipper,
        shown: dict[str, str],
        prefix: str = "",
        depth: int = 0,
    ) -> None:
        self._history = history
        self._clipper = clipper
        self._shown = shown
        self._prefix = prefix
        self._depth = depth
        self._entries = Entries(clipper, prefix, self._child)

    def turns(self) -> Iterator[str]:
        for turn in self._history.turns:
            yield from self._turn(turn)

    def _turn(self, turn: Turn) -> Iterator[str]:
        name = f"{self._prefix}turn-{turn.number}"
        title = f"Turn {turn.number}" if turn.said else "Before the task"
        heading = f'{title}<span class="soft">{_turn_facts(turn)}</span>'
        # A child's headings are below those of the step that it is part of.
        level = "h4" if self._prefix else "h2"
        labelled = "" if self._prefix else f' aria-labelledby="{name}"'
        yield f'<section class="turn"{labelled}><{level} id="{name}">{heading}</{level}>'
        yield from map(self._event, turn.events)
        for step in turn.steps:
            yield self._step(step)
        yield "</section>"

    def _step(self, step: Step) -> str:
        number, name = step.number, f"{self._prefix}step-{step.number}"
        metrics = plain(metrics_line(step.metrics)) if step.metrics else ""
        facts = f'<span class="soft">{_clock(step.first)} · {line(metrics)}</span>'
        title = f'<a href="#{name}">Step {number}</a>{facts}'
        if self._prefix:
            heading = f'<h5 id="{name}">{title}</h5>'
        else:
            window = f'<button class="js" data-step="{number}">Window</button>'
            heading = f'<h3 id="{name}">{title}{window}</h3>'
        return element("section", heading + "".join(map(self._event, step.events)), "step")

    def _event(self, event: Event) -> str:
        entry = self._entries.entry
        match event:
            case MessageAction(source=Source.USER):
                said = self._clipper.verbatim(event.content, event.id)
                return entry(event, "message user", said + self._images(event))
            case MessageAction(source=Source.AGENT):
                return entry(event, "message", self._reply(event))
            case MessageAction():
                return entry(event, "note", self._folded("told the model", event.content, event))
            case SystemMessageAction():
                return entry(event, "note", self._system(event))
            case CondensationAction():
                return entry(event, "note condensed", self._condensed(event))
            case Action(runnable=True):
                return self._entries.call(event, self._history.belonging.get(event.id, ()))
        failed = isinstance(event, ErrorObservation) or (
            isinstance(event, AgentStateChangedObservation) and event.agent_state == "error"
        )
        return entry(event, "note", self._note(event), failed=failed)

    def _reply(self, event: MessageAction) -> str:
        thoughts = ""
        if event.reasoning.strip():
            reasoning = self._clipper.verbatim(event.reasoning, event.id)
            thoughts = fold("reasoning", reasoning, "reasoning")
        said = prose(event.content, self._clipper, event.id) if event.content.strip() else ""
        return thoughts + said + self._images(event)

    def _images(self, event: MessageAction) -> str:
        return "".join(self._clipper.image(url, event.id) for url in event.image_urls)

    def _system(self, event: SystemMessageAction) -> str:
        names = ", ".join(str(tool.get("name", "?")) for tool in event.tools)
        tools = f'<p class="soft">Tools: {line(names)}</p>' if names else ""
        title = f"system text and {count(len(event.tools), 'tool')}"
        return fold(title, tools + self._clipper.pre(event.content, event.id))

    def _condensed(self, event: CondensationAction) -> str:
        title = line(event.message)
        before, after = event.numbers.get("tokens_before"), event.numbers.get("tokens_after")
        if before and after:
            title += f" · {before:,.0f} → {after:,.0f} tokens"
        if not event.summary:
            return f"<p>{title}</p>"
        return fold(title, prose(event.summary, self._clipper, event.id))

    def _note(self, event: Event) -> str:
        """Return a line for an event that is no message and no call, with the rest folded under
        it."""
        message = plain(note(event, verbose=2) or []) or event.message
        content = event.content.strip() if isinstance(event, Observation) else ""
        if not content or content in message:
            return f"<p>{line(message)}</p>"
        return self._folded(message.split("\n", 1)[0][:200], content, event)

    def _folded(self, title: str, content: str, event: Event) -> str:
        lines = count(content.count("\n") + 1, "line")
        summary = f'{line(title)} <span class="soft">· {lines}</span>'
        return fold(summary, self._clipper.pre(content, event.id))

    def _child(self, session_id: str) -> str:
        child = self._history.children.get(session_id)
        if child is None or self._depth >= _DEEPEST:
            return f'<p class="by">session {line(session_id)} is not part of this page</p>'
        if prefix := self._shown.get(session_id):
            first = f"#{prefix}turn-{child.turns[0].number}" if child.turns else ""
            link = f'session {line(session_id)} went on: <a href="{first}">what it did</a>'
            return f'<p class="by">{link}</p>'
        prefix = self._shown[session_id] = f"child-{len(self._shown) + 1}-"
        clipper = replace(self._clipper, session=session_id)
        inside = Timeline(child, clipper, self._shown, prefix, self._depth + 1)
        steps = sum(1 for _ in child.steps)
        events = count(len(child.events), "event")
        title = f"what it did · {count(steps, 'step')} · {events} · {line(session_id)}"
        return fold(title, "".join(inside.turns()), "child")


def turn_links(history: History) -> str:
    """Return links to the turns, with what the user said; empty if there is only one."""
    said = [(turn.number, turn.said.message) for turn in history.turns if turn.said is not None]
    if len(said) < 2:
        return ""
    items = (f'<li><a href="#turn-{number}">{line(text) or "…"}</a></li>' for number, text in said)
    listed = fold(f"{len(said):,} turns", f"<ol>{''.join(items)}</ol>")
    return f'<nav class="turns" aria-label="Turns">{listed}</nav>'


def _turn_facts(turn: Turn) -> str:
    first = turn.first
    facts = [_clock(first)] if first else []
    if turn.steps:
        costs = [step.metrics.cost_usd for step in turn.steps if step.metrics]
        took = sum(step.metrics.latency_s for step in turn.steps if step.metrics)
        known = [cost for cost in costs if cost is not None]
        facts.append(count(len(turn.steps), "step"))
        facts.append(money(sum(known) if len(known) == len(costs) else None))
        facts += [f"the model took {duration(took)}"] if took else []
    return " · ".join(facts)


def _clock(event: Event) -> str:
    return time_element(event.timestamp, "%H:%M:%S")


def time_element(when: datetime, form: str) -> str:
    """Return a time in the time zone in which the page is made, with its ISO form for programs."""
    with suppress(OverflowError, ValueError):
        when = when.astimezone()
    exactly = attribute(when.isoformat(timespec="seconds"))
    return f'<time datetime="{exactly}">{when:{form}}</time>'
