"""Show tool calls from their start to their result."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from agentcli.events import Action, Observation
from agentcli.events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    CmdRunAction,
    IPythonRunCellAction,
    path_of,
)
from agentcli.events.observations import (
    CmdOutputObservation,
    DecisionObservation,
    IPythonRunCellObservation,
    SessionStartedObservation,
)
from agentcli.events.progress import ChildProgress
from agentcli.ui.calls import (
    Outcome,
    call_head,
    call_line,
    call_lines,
    call_text,
    code_of,
    outcome,
    reach_of,
    request_lines,
)
from agentcli.ui.notices import decision_text
from agentcli.ui.outputs import Folding, live_lines
from agentcli.ui.reply import StreamedReply
from agentcli.ui.screen import Screen, path_link
from agentcli.ui.summary import count, money, whole_seconds
from agentcli.ui.text import Line, Span, cells, clip, indent, joined, plain, printable, wrap

_SHOW_ELAPSED_S = 1.0
_OUTPUT_KEPT = 8_000
_NO_SANDBOX = "no sandbox"
_MOST_ROWS = 8
"""Most rows that a call's text may take on the screen unless it is shown in full."""


@dataclass(slots=True)
class _Call:
    """An open call. `since` is set when its turn comes; `shown` means that its text is on the
    screen for good; `lines_gone` counts lines of its output that `output` no longer holds."""

    action: Action
    since: float | None = None
    shown: bool = False
    output: str = ""
    lines_gone: int = 0
    decided: DecisionObservation | None = None
    child: ChildProgress | None = None
    """What the child that carries out the call is doing now."""

    def elapsed(self, now: float) -> list[str]:
        """Return how long the call has been running, unless it has just begun."""
        seconds = now - (self.since or now)
        return [whole_seconds(int(seconds))] if seconds >= _SHOW_ELAPSED_S else []

    def add_output(self, text: str) -> None:
        whole = self.output + text
        self.output = whole[-_OUTPUT_KEPT:]
        self.lines_gone += whole.count("\n", 0, len(whole) - len(self.output))


class OpenCalls:
    """The open calls, in order. The first one is running: it is shown live, and becomes permanent
    together with its result, so that the two are never apart.

    Unless `detailed`, a call's line is printed when it starts, and another one for its result.
    """

    def __init__(
        self,
        screen: Screen,
        reply: StreamedReply,
        folding: Folding,
        *,
        detailed: bool,
        answers: bool,
    ) -> None:
        self._screen = screen
        self._reply = reply
        self._detailed = detailed
        self._answers = answers
        self._folding = folding
        self._calls: dict[int, _Call] = {}
        self._last_line_of: int | None = None
        self.said = ""
        """The model's last words, which its final answer may repeat."""
        self._workspace = ""
        self._reach = ""

    def begin_session(self, started: SessionStartedObservation) -> None:
        """Record where the session works and what its commands may do."""
        self._workspace = started.workspace.rstrip("/")
        self._reach = _NO_SANDBOX if started.sandbox == "none" else ""
        if started.network and not self._reach:
            self._reach = "with network"

    def __contains__(self, action_id: object) -> bool:
        return action_id in self._calls

    @property
    def _next(self) -> _Call | None:
        return next(iter(self._calls.values()), None)

    def add(self, action: Action, now: float) -> None:
        self._calls[action.id] = _Call(action)
        self._start_next(now)

    def add_output(self, action_id: int, text: str) -> None:
        if call := self._calls.get(action_id):
            call.add_output(text)

    def add_child(self, progress: ChildProgress, now: float) -> None:
        if call := self._calls.get(progress.action_id):
            call.child = progress
            call.since = call.since or now

    def run_next(self) -> None:
        """Show the text of the next call, if it does not fit on its line, before the call runs."""
        call = self._next
        if call is not None and self._detailed and not call.shown and self._is_long(call.action):
            self._put_text(call.action, Span("•", "cyan"))
            call.shown = True

    def decide(self, observation: DecisionObservation, now: float) -> None:
        call = self._calls.get(observation.cause or 0)
        if call is not None and observation.decision != "ask":
            call.decided, call.since = observation, now

    def answer(self, observation: Observation, now: float) -> None:
        call = self._calls.pop(observation.cause or 0)
        self._put(call, self._outcome(call, observation))
        self._start_next(now)

    def settle(self) -> None:
        """Show the open calls as they are, as no more results will come."""
        for call in self._calls.values():
            if self._detailed and call.since is not None:
                goes_on = isinstance(call.action, AgentDelegateAction)
                status = "stopped; it goes on with this session" if goes_on else "no result"
                self._put(call, Outcome([Span(status, "dim")]))
        self._calls.clear()

    def rows(self, now: float, icon: str) -> list[str]:
        """Return the live rows: the running call with the end of its output, or a row per child."""
        children = [call for call in self._calls.values() if call.child is not None]
        if children:
            return [self._screen.row(self._child_line(call, icon, now)) for call in children]
        call = self._next
        if call is None:
            return []
        facts = ["running"] if call.shown else []
        facts += call.elapsed(now)
        if len(self._calls) > 1:
            facts.append(f"{len(self._calls) - 1} more waiting")
        status, dot = [Span(" · ".join(facts), "dim")], Span(icon, "cyan")
        line: Line = [*call_head(dot, call.action), *status]
        if not call.shown:
            line = self._live_line(call.action, dot, status)
        output = live_lines(call.output, call.lines_gone, self._screen.live_rows - 2)
        return [self._screen.row(line), *map(self._screen.row, indent(output))]

    def _child_line(self, call: _Call, icon: str, now: float) -> Line:
        """Return a line such as `⠋ delegate  explorer: where … · read a.py · 3 steps · 8 s`."""
        assert call.child is not None
        child = call.child
        facts = [count(child.steps, "step")] if child.steps else []
        facts += [money(child.cost_usd)] if child.cost_usd else []
        facts += call.elapsed(now)
        head = call_head(Span(icon, "cyan"), call.action)
        end = f" · {' · '.join(facts)}" if facts else ""
        room = max(self._screen.width - cells(plain(head)) - cells(end), 20)
        task = clip([Span(printable(call_text(call.action), multiline=False))], room // 2)
        doing = Span(f" · {printable(child.doing, multiline=False)}", "dim")
        return [*head, *clip([*task, doing], room), Span(end, "dim")]

    def _outcome(self, call: _Call, observation: Observation) -> Outcome:
        """Return the outcome of a call. A refusal replaces it; a permission that the user gave is
        added."""
        result = outcome(observation, self._folding)
        width = self._screen.width - 4
        if result.prose:
            result.lines = [row for line in result.lines for row in wrap(line, width)]
        if self._folding.code is None:
            asked = request_lines(call.action, observation, width)
            result.lines, result.wraps = [*asked, *result.lines], True
        if isinstance(observation, CmdOutputObservation | IPythonRunCellObservation):
            own = "" if self._reach == _NO_SANDBOX else reach_of(call.action)
            mark = Span(own or self._reach, "yellow" if own else "dim")
            result.status = joined(result.status, [mark])
        decided = call.decided
        if decided is None or (decided.decision == "allow" and decided.by != "user"):
            return result
        text = decision_text(decided)
        if decided.decision == "deny":
            return Outcome([Span(text, "yellow")], failed=True)
        result.status = joined(result.status, [Span(text, "dim")])
        return result

    def _start_next(self, now: float) -> None:
        call = self._next
        if call is None or call.since is not None:
            return
        call.since = now
        if not self._detailed and not isinstance(call.action, AgentFinishAction):
            self._announce(call)

    def _announce(self, call: _Call) -> None:
        self._put_text(call.action, Span("•"))
        self._screen.put("call", indent(call_lines(call.action), 2))
        self._last_line_of = call.action.id

    def _put(self, call: _Call, result: Outcome) -> None:
        said, self.said = self.said, ""
        if isinstance(call.action, AgentFinishAction):
            final = call.action.final_thought
            if self._answers and final.strip() != said.strip():
                self._reply.show(final)
        elif self._detailed:
            self._put_detailed(call, result)
        else:
            self._put_result(call, result)

    def _put_detailed(self, call: _Call, result: Outcome) -> None:
        icon = Span("✗", "red") if result.failed else Span("•", "green")
        screen, action = self._screen, call.action
        line = self._line(action, icon, result.status)
        if self._is_folded_delegation(action):
            line = self._live_line(action, icon, result.status)
        if not call.shown and not self._is_long(action) and self._fits(line):
            screen.put("call", [line])
        else:
            if not call.shown:
                self._put_text(action, icon)
            rows = [result.status] if plain(result.status) else []
            if cells(text := plain(result.status)) > screen.width - 4:
                style = result.status[-1].style
                width = max(screen.width - 4, 20)
                rows = [[Span(row, style)] for row in textwrap.wrap(text, width)]
            screen.put("call", indent(rows))
        screen.put("call", indent(call_lines(action)), whole=self._folding.code is None)
        screen.put("call", indent(result.lines), whole=result.whole or result.wraps)

    def _put_text(self, action: Action, icon: Span) -> None:
        """Show the call's text, unless parts are folded. Lines after the first begin at the margin,
        so that a copy of them runs as the original did."""
        code = code_of(action)
        limit = self._folding.code
        rows = self._text_rows(action)
        shown = rows
        if limit is not None:
            shown = rows if len(rows) <= limit + 1 else rows[:limit]
            shown = [row[: _MOST_ROWS * self._screen.width] for row in shown]
        lines: list[Line] = [[Span(row, link=self._link(action))] for row in shown]
        if code is not None and self._screen.colors == "full":
            from agentcli.ui.highlight import highlight  # 90 ms, with Pygments

            lines = [*highlight("\n".join(shown), code.language)]
        head: Line = [*call_head(icon, action), Span(code.prompt if code else "")]
        if code is not None and code.language != "bash" and len(rows) > 1:
            self._screen.put("call", [head])
        elif lines:
            lines[0] = [*head, *lines[0]]
        self._screen.put("call", lines)
        more = []
        if len(rows) > len(shown):
            more.append(self._folding.more(len(rows) - len(shown), action.id))
        if cut := sum(map(len, rows[: len(shown)])) - sum(map(len, shown)):
            more.append(self._folding.more(cut, action.id, "character"))
        self._screen.put("call", indent(more))

    def _is_long(self, action: Action) -> bool:
        """Return whether the call's text takes more than one row of the screen."""
        if self._is_folded_delegation(action):
            return False
        return len(self._text_rows(action)) > 1 or not self._fits(self._line(action, Span("•"), []))

    def _is_folded_delegation(self, action: Action) -> bool:
        """Return whether one row is enough for a delegation: the child's session has the task."""
        return isinstance(action, AgentDelegateAction) and self._folding.code is not None

    def _fits(self, line: Line) -> bool:
        return cells(plain(line)) <= self._screen.width

    def _text_rows(self, action: Action) -> list[str]:
        code = code_of(action)
        text = printable((code.text if code else call_text(action)).strip("\n").rstrip())
        if self._workspace and code is None:
            text = text.replace(f"{self._workspace}/", "")
        return text.split("\n")

    def _link(self, action: Action) -> str:
        path = path_of(action) if self._screen.links else None
        if path is None:
            return ""
        return path_link(path if path.startswith("/") else f"{self._workspace}/{path}")

    def _put_result(self, call: _Call, result: Outcome) -> None:
        if self._last_line_of != call.action.id:
            self._announce(call)
        facts = result.status
        is_command = isinstance(call.action, CmdRunAction | IPythonRunCellAction)
        if result.lines and not result.whole and (is_command or not facts):
            facts = joined(facts, [Span(plain(result.lines[-1]).strip())])
        if facts:
            self._screen.put("call", [clip([Span("  "), *facts], self._screen.width)])
        if result.whole:
            self._screen.put("call", indent(result.lines))

    def _line(self, action: Action, icon: Span, status: list[Span]) -> Line:
        """Return name, text and status in one row, which may be wider than the screen. Of a text
        with several lines it has the first."""
        return [*call_head(icon, action), *joined(self._first_row(action), status)]

    def _live_line(self, action: Action, icon: Span, status: list[Span]) -> Line:
        """Return the same in one row of the screen, with the text cut in favour of the status."""
        more = len(self._text_rows(action)) - 1
        text = self._first_row(action)
        end = joined(text, status)[len(text) :] if plain(text) else status
        if more:
            end = [Span(f" … +{count(more, 'line')}", "dim"), *end]
        return call_line(icon, action, text, end, self._screen.width)

    def _first_row(self, action: Action) -> list[Span]:
        code = code_of(action)
        prompt = [Span(code.prompt)] if code and code.prompt else []
        return [*prompt, Span(self._text_rows(action)[0], link=self._link(action))]
