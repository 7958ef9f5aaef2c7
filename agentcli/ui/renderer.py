"""Show a session at a terminal: append-only lines, and a live region for the work in progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from agentcli.events import Action, Event, Observation, Progress, Source
from agentcli.events.actions import MessageAction, RecallAction
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    ErrorObservation,
    SessionStartedObservation,
)
from agentcli.events.progress import (
    ChildProgress,
    Notice,
    ReasoningDelta,
    ReplyAbandoned,
    Status,
    TextDelta,
    ToolCallStarted,
    ToolOutput,
)
from agentcli.ui.notices import error_line, metrics_line, note, status_text
from agentcli.ui.open_calls import OpenCalls
from agentcli.ui.outputs import DETAILED, FOLDED, Folding
from agentcli.ui.reply import StreamedReply
from agentcli.ui.screen import SPINNER, Kind, Region, Screen
from agentcli.ui.summary import SIGNALLED, RunSummary, closing_facts, left_in_tmp, whole_seconds
from agentcli.ui.text import Colors, Line, Span, cells, printable, wrap

_SILENT_S = 1.0
"""Waits shorter than this are not shown."""
_REDRAW_S = 0.06
"""Least time between redraws for text that streams in, a hundred pieces a second perhaps."""


class TerminalRenderer:
    """A subscriber that shows a session as it happens.

    On a terminal it shows Markdown, diffs, and a live region that `tick`, called about ten times a
    second, keeps moving; elsewhere a line for each call and one for its result.
    `show_text` says whether to show the model's answer, by default only on terminals; text beside
    tool calls is always shown. `static` is for a past session, shown in full.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        width: int | None = None,
        colors: Colors | None = None,
        quiet: bool = False,
        verbose: int = 0,
        show_text: bool | None = None,
        static: bool = False,
        echoes: bool = False,
        sums_up: bool = False,
        folding: Folding | None = None,
        region: Region | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.screen = Screen(
            stream, width=width, colors=colors, live=not static and not quiet, region=region
        )
        self._quiet = quiet
        self._verbose = verbose
        self._show_text = stream.isatty() if show_text is None else show_text
        self._echoes = echoes or static
        self._sums_up = sums_up
        self._clock = clock
        self._reply = StreamedReply(self.screen)
        self._calls = OpenCalls(
            self.screen,
            self._reply,
            folding or (DETAILED if verbose else FOLDED),
            detailed=self.screen.rich or static or verbose > 0,
            answers=self._show_text,
        )
        self._unfolded = verbose > 0 or (folding is not None and folding.code is None)
        self._starting: list[str] = []
        self._status: Status | None = None
        self._since = 0.0
        self._drawn_at = 0.0
        self._error_shown = ""
        self._unshown = ""
        self._expected: list[Action] = []

    def begin_session(self, started: SessionStartedObservation) -> None:
        """Record where the session works and what its commands may do."""
        self._calls.begin_session(started)

    def expect(self, calls: Iterable[Action]) -> None:
        """Remember calls that an earlier process left open: their lines are shown once one of them
        is answered."""
        self._expected = list(calls)

    def show(self, kind: Kind, lines: Sequence[Line], *, words: bool = False) -> None:
        """Show lines that stay and belong to no event; `words` breaks them between words."""
        put = self.screen.put_words if words else self.screen.put
        put(kind, lines)
        self._draw()

    def on_event(self, event: Event) -> None:
        if not self._quiet:
            self._take(event)
        elif isinstance(event, AgentStateChangedObservation):
            if event.agent_state == "error":
                self._note(event)
        elif isinstance(event, ErrorObservation) and event.cause is None:
            self._note(event)
        self._draw()

    def on_progress(self, progress: Progress) -> None:
        if self._quiet:
            return
        if isinstance(progress, ChildProgress):
            self._set_status(None)
            self._calls.add_child(progress, self._clock())
        else:
            self._take_progress(progress)
        piece = isinstance(progress, TextDelta | ReasoningDelta | ToolOutput)
        if not piece or self._clock() - self._drawn_at >= _REDRAW_S:
            self._draw()

    def tick(self) -> None:
        """Update clocks and spinners."""
        if self.screen.live:
            self._draw()

    def pause(self) -> None:
        """Clear the live rows until the next event, progress or tick."""
        self.screen.flush()

    def close(self) -> None:
        """End the live display: live rows become permanent or disappear."""
        self._reply.end()
        self._calls.settle()
        self._starting.clear()
        self._status = None
        self.screen.flush()

    def closing_line(self, summary: RunSummary) -> None:
        """Print how the run ended and how to resume it; if it failed, the latter even if quiet."""
        self.close()
        failed = summary.exit_code != 0
        lines: list[Line] = []
        is_known = summary.error == self._error_shown or summary.exit_code in SIGNALLED
        if failed and summary.error and not is_known:
            line = error_line(summary.error)
            lines += wrap(line, self.screen.width) if self.screen.rich else [line]
        if failed and summary.hint:
            lines.append([Span(printable(summary.hint), "")])
        if (where := left_in_tmp(summary)) and not self._quiet:
            lines.append([Span(printable(where, multiline=False), "dim")])
        facts = [] if self._quiet else closing_facts(summary)
        resume = printable(summary.resume_command, multiline=False)
        if resume and (failed or not self._quiet):
            facts.append(f"to go on: {resume}" if self._quiet else resume)
        rows: list[str] = []
        for fact in facts:
            # A fact is never broken.
            row = f"{rows[-1]} · {fact}" if rows else fact
            rows[-1:] = [row] if cells(row) <= self.screen.width else [*rows[-1:], fact]
        lines += [[Span(printable(row), "" if failed else "dim")] for row in rows]
        self.screen.put("end" if self.screen.rich and not self._quiet else "note", lines)
        self.screen.flush()

    def _take(self, event: Event) -> None:
        now = self._clock()
        if isinstance(event, Observation) and any(a.id == event.cause for a in self._expected):
            for action in self._expected:
                self._calls.add(action, now)
            self._expected.clear()
        match event:
            case MessageAction():
                self._message(event)
            case DecisionObservation(cause=cause) if cause in self._calls:
                self._calls.decide(event, now)
            case Observation(cause=cause) if cause in self._calls:
                self._set_status(None)
                self._calls.answer(event, now)
            case RecallAction(source=Source.ENVIRONMENT) if not self._verbose:
                pass
            case Action(runnable=True):
                self._reply.end()
                self._starting.clear()
                self._set_status(None)
                self._calls.add(event, now)
            case _:
                self._other(event)
        if event.llm_metrics is not None and self._verbose:
            self.screen.put("note", [metrics_line(event.llm_metrics)])

    def _message(self, message: MessageAction) -> None:
        if message.source is Source.AGENT:
            self._starting.clear()
            self._set_status(None)
            self._calls.said = message.content
            beside_calls = message.reply is not None and message.reply.total > 1
            if self._reply.begun:
                self._reply.end()
            elif self._show_text or beside_calls:
                self._reply.show(message.content, message.reasoning if self._unfolded else "")
            else:
                self._unshown = message.content
        elif message.source is Source.USER:
            self._calls.said = ""
            if message.delivery is not None and self._unshown:
                # The run will print the answer to this message at its end, not the earlier one.
                self._reply.show(self._unshown, "")
                self._unshown = ""
            if self._echoes or message.delivery is not None:
                said = "> " + printable(message.content.strip()).replace("\n", "\n  ")
                self.screen.put("user", [[Span(row, "bold")] for row in said.split("\n")])
        elif self._verbose:
            self.screen.put_words("note", [[Span(printable(message.message), "dim")]])

    def _other(self, event: Event) -> None:
        if isinstance(event, SessionStartedObservation):
            self.begin_session(event)
        if isinstance(event, AgentStateChangedObservation) and event.agent_state != "running":
            self._set_status(None)
            self._reply.end()
        self._note(event)

    def _note(self, event: Event) -> None:
        paused = isinstance(event, AgentStateChangedObservation) and event.agent_state == "paused"
        if paused and self._sums_up and not getattr(event, "content", ""):
            return
        line = note(event, self._verbose)
        if line is None:
            return
        if isinstance(event, ErrorObservation | AgentStateChangedObservation):
            self._error_shown = event.content
        self.screen.put_words("note", [line])

    def _take_progress(self, progress: Progress) -> None:
        match progress:
            case TextDelta(text=text) if self._show_text and self.screen.live:
                self._reply.add_text(text)
            case ReasoningDelta(text=text) if self._verbose and self.screen.live:
                self._reply.add_reasoning(text)
            case ToolCallStarted(name=name):
                if not self._starting:
                    self._since = self._clock()
                self._reply.pause()
                self._starting.append(printable(name, multiline=False))
            case ToolOutput(action_id=action_id, text=text) if self.screen.live:
                self._calls.add_output(action_id, text)
            case ReplyAbandoned(reason=reason):
                self._starting.clear()
                if self._reply.abandon():
                    why = printable(reason, multiline=False)
                    said = f"reply broken off: {why}; the text above does not count"
                    self.screen.put_words("note", [[Span(said, "dim")]])
            case Status():
                self._set_status(progress)
            case Notice(text=text):
                self.screen.put_words("note", [[Span(printable(text), "dim")]])

    def _set_status(self, status: Status | None) -> None:
        before, self._status = self._status, status
        if status is None:
            return
        if status.phase == "running":
            self._calls.run_next()
        again = before is not None and before.phase == status.phase
        if status.until_s is not None or not again:
            self._since = self._clock()
        if status.phase == "retrying" and not again and not self.screen.live:
            self.screen.put_words("note", [[Span(status_text(status, 0), "dim")]])

    def _draw(self) -> None:
        rows: list[str] = []
        if self.screen.live:
            self._drawn_at = now = self._clock()
            rows = self._reply.rows() or self._calls.rows(now, _spinner(now)) or self._wait(now)
        self.screen.flush(rows)

    def _wait(self, now: float) -> list[str]:
        elapsed = now - self._since
        if self._starting:
            took = f" {whole_seconds(int(elapsed))}" if elapsed >= _SILENT_S else ""
            text = f" {', '.join(self._starting)} …{took}"
        elif self._status is not None and (elapsed >= _SILENT_S or self._status.until_s):
            text = f" {status_text(self._status, elapsed)}"
        else:
            return []
        return [self.screen.row([Span(_spinner(now), "cyan"), Span(text, "dim")])]


def _spinner(now: float) -> str:
    return SPINNER[int(now * 10) % len(SPINNER)]
