"""Tool calls between their start and their result."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

from agentcli.events import Action, Observation
from agentcli.events.actions import AgentFinishAction, CmdRunAction, IPythonRunCellAction
from agentcli.events.observations import DecisionObservation
from agentcli.ui.calls import Outcome, call_line, call_lines, call_text, outcome, tail
from agentcli.ui.notices import decision
from agentcli.ui.reply import StreamedReply
from agentcli.ui.sanitize import printable
from agentcli.ui.screen import Screen
from agentcli.ui.style import Line, Span, cells, clip, indent, plain
from agentcli.ui.summary import whole_seconds

_SHOW_ELAPSED_S = 1.0
_LIVE_OUTPUT_LINES = 5
_OUTPUT_KEPT = 8_000


@dataclass(slots=True)
class _Call:
    """`since` is set when the call's turn comes."""

    action: Action
    since: float | None = None
    output: str = ""
    decided: DecisionObservation | None = None


class ToolCalls:
    """Calls in their order. The first one is running; it is live, and becomes a line for good
    together with its result, so that the two are never apart.

    On a screen that can't change (`detailed` aside) the line of a call comes first, then one for
    its result.
    """

    def __init__(
        self, screen: Screen, reply: StreamedReply, *, detailed: bool, answers: bool, verbose: int
    ) -> None:
        self._screen = screen
        self._reply = reply
        self._detailed = detailed
        self._answers = answers
        self._verbose = verbose
        self._calls: dict[int, _Call] = {}
        self._last_line_of: int | None = None
        self.workspace = ""

    def __contains__(self, action_id: object) -> bool:
        return action_id in self._calls

    def add(self, action: Action, now: float) -> None:
        self._calls[action.id] = _Call(action)
        self._start_next(now)

    def add_output(self, action_id: int, text: str) -> None:
        call = self._calls.get(action_id)
        if call is not None:
            call.output = (call.output + text)[-_OUTPUT_KEPT:]

    def decide(self, observation: DecisionObservation, now: float) -> None:
        if observation.cause in self._calls and observation.decision != "ask":
            call = self._calls[observation.cause]
            call.decided = observation
            call.since = now

    def answer(self, observation: Observation, now: float) -> None:
        assert observation.cause is not None
        call = self._calls.pop(observation.cause)
        self._put(call, _with_decision(outcome(observation, self._verbose), call.decided))
        self._start_next(now)

    def settle(self) -> None:
        """No more results will come: what is open stays as it is."""
        for call in self._calls.values():
            if self._detailed and call.since is not None:
                self._put(call, Outcome([Span("no result", "dim")]))
        self._calls.clear()

    def rows(self, now: float, icon: str) -> list[str]:
        """The running call with the end of its output."""
        call = next(iter(self._calls.values()), None)
        if call is None:
            return []
        elapsed = now - (call.since or now)
        facts = [whole_seconds(int(elapsed))] if elapsed >= _SHOW_ELAPSED_S else []
        if len(self._calls) > 1:
            facts.append(f"{len(self._calls) - 1} more waiting")
        status = [Span(" · ".join(facts), "dim")] if facts else []
        lines = [self._line(call.action, Span(icon, "cyan"), status)]
        lines += indent(tail(call.output, _LIVE_OUTPUT_LINES))
        return [self._screen.row(line) for line in lines]

    def _start_next(self, now: float) -> None:
        call = next(iter(self._calls.values()), None)
        if call is None or call.since is not None:
            return
        call.since = now
        if not self._detailed and not isinstance(call.action, AgentFinishAction):
            self._announce(call)

    def _announce(self, call: _Call) -> None:
        lines = [self._line(call.action, Span("•"), []), *indent(call_lines(call.action), 2)]
        self._screen.put("call", lines)
        self._last_line_of = call.action.id

    def _put(self, call: _Call, result: Outcome) -> None:
        if isinstance(call.action, AgentFinishAction):
            if self._answers:
                self._reply.show(call.action.final_thought)
        elif self._detailed:
            self._put_detailed(call, result)
        else:
            self._put_result(call, result)

    def _put_detailed(self, call: _Call, result: Outcome) -> None:
        icon = Span("✗", "red") if result.failed else Span("•", "green")
        status = result.status
        below: list[Line] = []
        screen, action = self._screen, call.action
        width = cells(plain(status))
        room = screen.width - cells(plain(self._line(action, icon, [])))
        if width > screen.width // 2 and width + 3 > room:
            status, below = [], _filled(status, screen.width - 4)
        screen.put("call", [self._line(action, icon, status)], whole=False)
        if self._verbose:
            screen.put("call", indent([Span(row)] for row in _text_rows(action)[1:]))
        screen.put("call", indent(below))
        screen.put("call", indent([*call_lines(action), *result.lines]), whole=result.whole)

    def _put_result(self, call: _Call, result: Outcome) -> None:
        if self._last_line_of != call.action.id:
            self._announce(call)
        facts = list(result.status)
        is_command = isinstance(call.action, CmdRunAction | IPythonRunCellAction)
        if result.lines and not result.whole and (is_command or not facts):
            facts += [Span(" · ")] if facts else []
            facts += [Span(plain(result.lines[-1]).strip())]
        if facts:
            self._screen.put("call", [clip([Span("  "), *facts], self._screen.width)])
        if result.whole:
            self._screen.put("call", indent(result.lines))

    def _line(self, action: Action, icon: Span, status: list[Span]) -> Line:
        first, *more = _text_rows(action)
        if self.workspace and not isinstance(action, CmdRunAction | IPythonRunCellAction):
            first = first.replace(f"{self.workspace}/", "")
        end = [Span(f" … +{len(more)} lines", "dim")] if more and not self._verbose else []
        if status:
            end += [Span(" · ", "dim"), *status] if first else status
        return call_line(icon, action, first, end, self._screen.width)


def _text_rows(action: Action) -> list[str]:
    return printable(call_text(action).strip()).split("\n")


def _filled(status: list[Span], width: int) -> list[Line]:
    """On as many rows as `width` asks for, in the style that the status ends with."""
    text = plain(status)
    if cells(text) <= width:
        return [status]
    return [[Span(row, status[-1].style)] for row in textwrap.wrap(text, max(width, 20))]


def _with_decision(result: Outcome, decided: DecisionObservation | None) -> Outcome:
    """A refusal is the whole result; a permission is said beside it when a person gave it."""
    if decided is None or (decided.decision == "allow" and decided.by != "user"):
        return result
    text = decision(decided)
    if decided.decision == "deny":
        return Outcome([Span(text, "yellow")], failed=True)
    separator = [Span(" · ", "dim")] if result.status else []
    return replace(result, status=[*result.status, *separator, Span(text, "dim")])
