"""Sum up a session before it is resumed: how it ended, what was done last, what waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Protocol, TextIO

from agentcli.events import Action, Event, Observation, Source, actions
from agentcli.events import observations as obs
from agentcli.events.conversation import newest_first
from agentcli.ui.calls import Outcome, call_line, call_name, call_text, outcome
from agentcli.ui.outputs import STOPPED, interruption_text
from agentcli.ui.reply import BlockSplitter, render_block
from agentcli.ui.screen import Region, Screen
from agentcli.ui.summary import STATE_WORDS, ago, count, money
from agentcli.ui.text import (
    Line,
    Span,
    Style,
    cells,
    clip,
    joined,
    paint,
    plain,
    printable,
    without_escapes,
)

_MOST_CALLS = 3
_MOST_SAID = 2
_MOST_WORDS = 5
_FEWEST_WORDS = 2
_MOST_ROWS = 14
_TASKS_AMONG = 1_000
"""How many events back a task list still counts as current."""
_LONGEST_REASON = 200
_WORDS_KEPT = 4_000
_NOT_CALLS = (actions.AgentFinishAction, actions.AgentThinkAction, actions.TaskTrackingAction)
_WORDS = {**STATE_WORDS, "finished": "finished", "idle": "not started"}


class SessionFacts(Protocol):
    """The part of a session's state that is used here."""

    @property
    def session_id(self) -> str: ...
    @property
    def agent_state(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def iteration(self) -> int: ...
    @property
    def cost_usd(self) -> float | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def title(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ResumeSummary:
    """The summary of a session. `ended` says in words how it ended, and `reason` adds a phrase;
    `when` is None if it never ran. `calls` are the last calls with their results,
    oldest first. `queued` are messages that the agent has not seen."""

    state: SessionFacts
    ended: str
    when: datetime | None
    reason: str
    said: str
    words: str
    calls: tuple[tuple[Action, Observation | None], ...]
    tasks: tuple[dict[str, str], ...]
    queued: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.state.name or self.state.title or self.state.session_id


def how_it_ended(agent_state: str, exit_code: int | None) -> str:
    """Describe how a session that is not running ended."""
    if agent_state == "finished" and exit_code:
        return "failed"
    if agent_state == "paused" and exit_code == 6:
        return "limit reached"
    return _WORDS.get(agent_state, "interrupted")


def summarise(
    events: Sequence[Event], state: SessionFacts, waiting: Sequence[str] = ()
) -> ResumeSummary:
    """Sum up a session for the user before it is resumed, from its log and its state; `waiting` are
    messages in its inbox."""
    turn = _newest_turn(events)
    messages = [event for event in turn if actions.is_user_message(event)]
    since_reply = takewhile(lambda event: event.reply is None, turn)
    unanswered = [event for event in since_reply if actions.is_user_message(event)]
    queued = [message for message in unanswered if message.delivery is not None]
    said = next((message for message in messages if message not in queued), None)
    words = next(filter(None, map(_words, turn)), "")
    calls = [call for call in _calls(turn) if not isinstance(call[0], _NOT_CALLS)][:_MOST_CALLS]
    ended, when, reason = _ending(events, turn, state)
    recent = islice(_in_force(events), _TASKS_AMONG)
    lists = (e.task_list for e in recent if isinstance(e, actions.TaskTrackingAction))
    return ResumeSummary(
        state=state,
        ended=ended,
        when=when,
        reason="" if reason and words.startswith(reason) else reason,
        said=said.content if said else "",
        words=words,
        calls=tuple(reversed(calls)),
        tasks=next((tasks for tasks in lists if tasks), ()),
        queued=(*(message.content for message in reversed(queued)), *waiting),
    )


def one_line(summary: ResumeSummary) -> str:
    """Return the summary in one line, for a log file."""
    state = summary.state
    facts = ", ".join([summary.ended, count(state.iteration, "step"), money(state.cost_usd)])
    task = _one_row(summary.said or summary.label)
    return plain(clip([Span(f"resuming {state.session_id} ({facts}): {task}")], _LONGEST_REASON))


def show_summary(
    summary: ResumeSummary, stream: TextIO, now: datetime, region: Region | None = None
) -> None:
    """Show the summary, above `region` if there is one. On a terminal of 80 columns it takes at
    most 15 rows."""
    screen = Screen(stream, live=region is not None, region=region)
    heading = _heading(summary, now)
    said = _said(summary.said, screen.width)
    calls = [_call(action, result, screen.width) for action, result in summary.calls]
    queued: list[Line] = []
    if waiting := summary.queued:
        verb = "waits" if len(waiting) == 1 else "wait"
        text = f"{count(len(waiting), 'message')} of yours {verb}: {_one_row(waiting[0])}"
        queued = [[Span(text, "cyan")]]
    others = [rows for rows in (heading, said, calls, queued) if rows]
    room = _MOST_ROWS - sum(map(len, others)) - len(others)
    room = min(_MOST_WORDS, max(_FEWEST_WORDS, room))
    words = _first_rows(summary.words, room, screen)
    screen.put("note", heading, whole=False)
    screen.put("user", said, whole=False)
    screen.put_rows("text", words)
    screen.put("call", calls, whole=False)
    screen.put("note", queued, whole=False)
    screen.put_rows("note", [""] if screen.rich else [])
    screen.flush()


def _in_force(events: Sequence[Event]) -> Iterator[Event]:
    """Yield events newest first, without rewound ones and discarded replies."""
    discarded: set[str] = set()
    for event in newest_first(events):
        if isinstance(event, obs.ReplyDiscardedObservation):
            discarded.add(event.reply_id)
        if event.reply is None or event.reply.id not in discarded:
            yield event


def _newest_turn(events: Sequence[Event]) -> list[Event]:
    """Return the events of the newest turn, newest first, back to the message that began it."""
    turn: list[Event] = []
    heard = False
    for event in _in_force(events):
        turn.append(event)
        heard = heard or event.reply is not None
        begins = (None, "queue") if heard else (None,)
        if actions.is_user_message(event) and event.delivery in begins:
            break
    return turn


def _words(event: Event) -> str:
    if isinstance(event, actions.AgentFinishAction):
        return event.final_thought.strip()
    if isinstance(event, actions.MessageAction) and event.source is Source.AGENT:
        return event.content.strip()
    return ""


def _calls(turn: Sequence[Event]) -> list[tuple[Action, Observation | None]]:
    """Return the calls, newest first, each with its result."""
    answers: dict[int | None, Observation] = {}
    calls: list[tuple[Action, Observation | None]] = []
    for event in turn:
        if isinstance(event, Observation) and not isinstance(event, obs.DecisionObservation):
            answers[event.cause] = event
        elif isinstance(event, Action) and event.tool_call_metadata is not None:
            calls.append((event, answers.get(event.id)))
    return calls


def _ending(
    events: Sequence[Event], turn: Sequence[Event], state: SessionFacts
) -> tuple[str, datetime | None, str]:
    """Return how, when and why the last process left the session."""
    ended = how_it_ended(state.agent_state, state.exit_code)
    newest = iter(reversed(events))
    change = next((e for e in newest if isinstance(e, obs.AgentStateChangedObservation)), None)
    if change is None or not events:
        return ended, events[-1].timestamp if events else None, ""
    if ended != "interrupted":
        return ended, change.timestamp, _one_row(change.content)
    if change.reason == "killed":
        # The next process recorded the kill, so the time is that of the event before its record.
        before = (e for e in newest if not isinstance(e, obs.ReplyDiscardedObservation))
        last = next((e for e in before if getattr(e, "error_id", "") != "interrupted"), change)
    else:
        last = change if change.agent_state == "paused" else events[-1]
    return ended, last.timestamp, _interrupted_in(turn)


def _interrupted_in(turn: Sequence[Event]) -> str:
    """Return the call that was running, or was asked about, when the newest reply stopped."""
    newest = next((event.reply.id for event in turn if event.reply is not None), None)
    calls = [(a, o) for a, o in reversed(_calls(turn)) if a.reply and a.reply.id == newest]
    action = next((action for action, result in calls if _is_cut_short(result)), None)
    if action is None:
        return ""
    decisions = (e for e in turn if isinstance(e, obs.DecisionObservation) and e.cause == action.id)
    decided = next(decisions, None)
    asked = decided is not None and decided.decision == "ask"
    text = call_text(action)
    if not isinstance(action, actions.CmdRunAction):
        text = f"{call_name(action)} {text}"
    return f"{'before you allowed' if asked else 'while running'}: {_one_row(text)}"


def _is_cut_short(result: Observation | None) -> bool:
    if isinstance(result, obs.ErrorObservation):
        return result.error_id == "interrupted"
    return result is None or bool(STOPPED.search(result.content))


def _heading(summary: ResumeSummary, now: datetime) -> list[Line]:
    age = f" {ago((now - summary.when.astimezone(UTC)).total_seconds())}" if summary.when else ""
    separator = " " if summary.ended == "interrupted" else ": "
    reason = f"{separator}{summary.reason}" if summary.reason else ""
    styles: dict[str, Style] = {"failed": "red", "finished": "green"}
    style = styles.get(summary.ended, "yellow")
    label = _one_row(summary.label)
    known = _one_row(summary.said).startswith(label.removesuffix("…"))
    rows: list[Line] = [] if known else [[Span(label, "bold")]]
    state = summary.state
    facts = [state.session_id, count(state.iteration, "step"), money(state.cost_usd)]
    if summary.tasks:
        done = sum(task.get("status") == "done" for task in summary.tasks)
        task = next((t for t in summary.tasks if t.get("status") == "in_progress"), None)
        doing = f", now: {_one_row(task.get('title', ''))}" if task else ""
        facts.append(f"todo {done}/{len(summary.tasks)} done{doing}")
    ended = [Span(summary.ended + age, style), Span(reason)]
    return [*rows, ended, [Span(" · ".join(facts), "dim")]]


def _said(text: str, width: int) -> list[Line]:
    rows = [row for row in printable(text.strip()).split("\n") if row.strip()]
    marked = zip(("> ", *["  "] * (_MOST_SAID - 1)), rows, strict=False)
    lines: list[Line] = [[Span(mark + row, "bold")] for mark, row in marked]
    if len(rows) > _MOST_SAID:
        more = Span(f" … +{count(len(rows) - _MOST_SAID, 'line')}", "dim")
        lines[-1] = [*clip(lines[-1], width - cells(more.text)), more]
    return lines


def _first_rows(text: str, most: int, screen: Screen) -> list[str]:
    """Return the first rows of the agent's words as they looked, and how many more there are."""
    rows: list[str] = []
    if screen.rich:
        blocks = BlockSplitter()
        for block in [*blocks.feed(text[:_WORDS_KEPT]), *blocks.finish()]:
            rows += ["", *render_block(block, screen.width, screen.colors)]
    else:
        rows += printable(text[:_WORDS_KEPT]).split("\n")
    shown = [row for row in rows if without_escapes(row).strip()]
    if len(shown) <= most:
        return shown
    more = f"… +{len(shown) - most + 1} lines" if len(text) <= _WORDS_KEPT else "…"
    return [*shown[: most - 1], paint([Span(more, "dim")], screen.colors)]


def _call(action: Action, result: Observation | None, width: int) -> Line:
    """Return one row, in which the call's text is cut to make room for its result."""
    came = outcome(result) if result else Outcome()
    status = came.status
    if result is None:
        status = [Span("no result", "yellow")]
    elif _is_cut_short(result):
        how = interruption_text(result.content)
        if isinstance(result, obs.ErrorObservation):
            is_started = not result.content.startswith("Not started")
            how = "effect unknown" if is_started else "not started"
        status = [Span(how, "yellow")]
    icon = Span("✗", "red") if came.failed else Span("•", "dim" if result is None else "green")
    text = [Span(_one_row(call_text(action)))]
    end = joined(text, status)[1:] if plain(text) else status
    return call_line(icon, action, text, clip(end, width // 2), width)


def _one_row(text: str) -> str:
    """Return the first line that is not empty, with nothing in it that a terminal acts on."""
    return printable(text.strip().split("\n", 1)[0], multiline=False)[:_LONGEST_REASON]
