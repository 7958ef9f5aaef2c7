"""Renders each tool call as one entry of the timeline, together with its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeGuard

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    GlobAction,
    IPythonRunCellAction,
    MCPAction,
    RecallAction,
    SearchAction,
    TaskTrackingAction,
    ToolCallAction,
)
from agentcli.events.observations import (
    DecisionObservation,
    DelegateObservation,
    DelegateStartedObservation,
    FileEditObservation,
    FileWriteObservation,
    HookObservation,
    UserRejectObservation,
)
from agentcli.page.markup import Clipper, element, fold, line, prose
from agentcli.ui.calls import (
    Outcome,
    argument_rows,
    call_lines,
    call_name,
    call_text,
    code_of,
    outcome,
    raw_argument_rows,
    reach_of,
    request_lines,
)
from agentcli.ui.notices import decision_text, note
from agentcli.ui.outputs import GAP, UNFOLDED, diff_rows
from agentcli.ui.summary import count
from agentcli.ui.text import Line, plain

_ANY_WIDTH = 1_000_000
_OPEN_LINES = 14
_OPEN_LINES_FAILED = 40
_OPEN_LINES_CHANGED = 60
"""A call is unfolded from the start if its output or change has at most that many lines."""
_READS = (FileReadAction, SearchAction, GlobAction, BrowseURLAction, RecallAction)
_ALWAYS_OPEN = (AgentFinishAction, AgentThinkAction, TaskTrackingAction)
"""Calls that consist of the model's own words only."""
_DIFF_ELEMENTS = {"+": "ins", "-": "del"}

ChildPage = Callable[[str], str]
"""Returns the timeline of the child with this session id as HTML."""


class Entries:
    """Renders the entries of one session. `prefix` distinguishes the ids of its elements from those
    of other sessions on the page; `child` renders the work of a child."""

    def __init__(self, clipper: Clipper, prefix: str, child: ChildPage) -> None:
        self._clipper = clipper
        self._prefix = prefix
        self._child = child

    def entry(self, event: Event, kind: str, content: str, *, failed: bool = False) -> str:
        """Return an entry of the timeline with its number, which links to it."""
        place = self.place(event)
        number = f'<a class="n" href="#{place}" aria-label="Event {event.id}">{event.id}</a>'
        classes = f"e {kind}{' failed' if failed else ''}"
        return f'<article id="{place}" class="{classes}">{number}{content}</article>'

    def place(self, event: Event) -> str:
        """Return the id of the event's element."""
        return f"{self._prefix}event-{event.id}"

    def call(self, action: Action, belonging: Sequence[Event]) -> str:
        """Return a call as one line that unfolds to its arguments and result."""
        results = [event for event in belonging if _is_result(event)]
        result = results[0] if results else None
        came = outcome(result, UNFOLDED) if result else Outcome()
        failed = came.failed or any("red" in span.style for span in came.status)
        parts = [*self._asked(action, result), *self._around(belonging)]
        opened = isinstance(action, _ALWAYS_OPEN)
        for each in results:
            shown = came if each is result else outcome(each, UNFOLDED)
            parts.append(self._result(action, each, shown))
            opened = opened or (action.source is Source.AGENT and _is_short(each, shown, failed))
        for event in belonging:
            if isinstance(event, DelegateStartedObservation):
                parts.append(self._child(event.session_id))
        summary = _summary(action, came, answered=result is not None)
        body = "".join(parts)
        kind = kind_of(action)
        if not body:
            content = f'<p class="call">{summary}</p>'
        else:
            content = fold(summary, f'<div class="body">{body}</div>', "call", opened=opened)
        return self.entry(action, kind, content, failed=failed)

    def _asked(self, action: Action, result: Observation | None) -> Iterator[str]:
        """Yield the parts of the request that the summary line does not show."""
        match action:
            case AgentThinkAction(thought=thought):
                yield prose(thought, self._clipper, action.id)
            case AgentFinishAction():
                yield from self._finished(action)
            case AgentDelegateAction(task=task):
                yield prose(task, self._clipper, action.id)
            case TaskTrackingAction():
                yield self._lines(call_lines(action), action.id, "tasks")
            case ToolCallAction(raw_arguments=raw, error=None):
                yield self._rows(raw_argument_rows(raw), action.id)
            case MCPAction(arguments=arguments):
                yield self._rows(argument_rows(arguments), action.id)
            case _:
                yield from self._code(action)
        if result is not None and not isinstance(action, AgentDelegateAction):
            lines = request_lines(action, result, _ANY_WIDTH)
            if isinstance(action, FileWriteAction | FileEditAction):
                yield self._change([(row[0].text[:1], plain(row)[2:], 0) for row in lines], action)
            elif lines:
                yield self._lines(lines, action.id, "soft")

    def _code(self, action: Action) -> Iterator[str]:
        code = code_of(action)
        whole = code.text if code else call_text(action)
        if len(whole) > 100 or "\n" in whole.strip():
            yield self._clipper.pre(whole.strip("\n"), action.id, "code")

    def _finished(self, action: AgentFinishAction) -> Iterator[str]:
        if action.final_thought:
            yield prose(action.final_thought, self._clipper, action.id)

    def _rows(self, rows: Iterable[str], event: int, classes: str = "code") -> str:
        whole = "\n".join(rows)
        return self._clipper.pre(whole, event, classes) if whole.strip() else ""

    def _around(self, belonging: Iterable[Event]) -> Iterator[str]:
        """Yield who allowed the call, what hooks said and which session carries it out."""
        for event in belonging:
            if isinstance(event, DecisionObservation):
                text = decision_text(event)
            elif isinstance(event, DelegateStartedObservation):
                text = event.message
            elif not _is_result(event):
                text = plain(note(event, verbose=2) or []) or event.message
            else:
                continue
            yield f'<p class="by" id="{self.place(event)}">{line(text)}</p>'

    def _result(self, action: Action, result: Observation, came: Outcome) -> str:
        content = "".join(self._result_parts(action, result, came))
        place = self.place(result)
        if not content:
            return f'<span id="{place}"></span>'
        number = f'<a class="m" href="#{place}" aria-label="Event {result.id}">{result.id}</a>'
        return f'<div class="result" id="{place}">{number}{content}</div>'

    def _result_parts(self, action: Action, result: Observation, came: Outcome) -> Iterator[str]:
        clipper = self._clipper
        if isinstance(result, FileWriteObservation | FileEditObservation):
            rows = [(row.sign, row.text, row.number) for row in diff_rows(result.diff)]
            yield self._change(rows, result)
        elif isinstance(result, DelegateObservation):
            yield prose(result.content, clipper, result.id) if result.content.strip() else ""
        elif isinstance(action, _ALWAYS_OPEN):
            yield self._lines(came.lines, result.id) if came.failed else ""
        elif isinstance(result, UserRejectObservation) or came.prose:
            whole = result.content.strip() or plain(came.status)
            yield clipper.pre(whole, result.id, "bad")
        else:
            yield self._lines(came.lines, result.id)
        for url in getattr(result, "image_urls", ()):
            yield clipper.image(url, result.id)

    def _change(self, rows: Sequence[tuple[str, str, int]], event: Event) -> str:
        """Return as many rows of a diff as the limit allows. A row is a sign, a text and a line
        number, 0 if it has none."""
        left = self._clipper.characters
        shown: list[str] = []
        for sign, content, number in rows:
            if left < 0:
                shown.append(
                    self._clipper.omission(count(len(rows) - len(shown), "line"), event.id)
                )
                break
            left -= len(content) + 8
            row = sign + self._clipper.clipped(content.removesuffix("\r"), event.id)
            if sign == GAP:
                shown.append(f'<span class="gap">{row}\n</span>')
                continue
            numbered = f' data-n="{number}"' if number else ""
            name = _DIFF_ELEMENTS.get(sign, "span")
            shown.append(f"<{name}{numbered}>{row}\n</{name}>")
        return element("pre", "".join(shown), "diff") if shown else ""

    def _lines(self, lines: Sequence[Line], event: int, classes: str = "") -> str:
        return self._rows(map(plain, lines), event, classes)


def kind_of(action: Action) -> str:
    """Return the kind of entry, by which the page filters."""
    match action:
        case CmdRunAction() | IPythonRunCellAction():
            return "command"
        case FileWriteAction() | FileEditAction():
            return "change"
        case AgentThinkAction():
            return "thought"
        case AgentFinishAction():
            return "message"
    return "read" if isinstance(action, _READS) else "tool"


def _is_result(event: Event) -> TypeGuard[Observation]:
    aside = DecisionObservation | DelegateStartedObservation | HookObservation
    return isinstance(event, Observation) and not isinstance(event, aside)


def _is_short(result: Observation, came: Outcome, failed: bool) -> bool:
    if isinstance(result, FileWriteObservation | FileEditObservation):
        return result.diff.count("\n") <= _OPEN_LINES_CHANGED
    if getattr(result, "image_urls", ()):
        return True
    most = _OPEN_LINES_FAILED if failed else _OPEN_LINES
    return 0 < len(came.lines) <= most and sum(len(plain(row)) for row in came.lines) < 100 * most


def _summary(action: Action, came: Outcome, *, answered: bool) -> str:
    name = element("b", line(call_name(action)))
    code = code_of(action)
    whole = (code.prompt + code.text if code else call_text(action)).strip()
    if isinstance(action, AgentFinishAction):
        whole = action.status
    first = next(iter(whole.split("\n", 1)), "")[:300]
    about = element("code", line(first)) if first else ""
    facts = [f'<i class="{_tone(span.style)}">{line(span.text)}</i>' for span in came.status]
    if not answered:
        facts.append('<i class="warn">no result</i>')
    if reach := reach_of(action):
        facts.append(f'<i class="warn"> · {line(reach)}</i>')
    status = element("span", "".join(islice(facts, 8)), "status") if facts else ""
    return f"{name}{about}{status}"


def _tone(style: str) -> str:
    return "bad" if "red" in style else {"yellow": "warn", "green": "ok"}.get(style, "soft")
