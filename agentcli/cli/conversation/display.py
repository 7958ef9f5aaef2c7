"""What a conversation shows: the renderer that two threads share, and the line of facts below the
prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock

from agentcli.events import Action, Event, Progress
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.progress import Notice
from agentcli.llm.catalog import Catalog
from agentcli.sessions.session import SessionLog
from agentcli.settings import Settings
from agentcli.ui.renderer import TerminalRenderer
from agentcli.ui.screen import Kind
from agentcli.ui.summary import RunSummary, money
from agentcli.ui.text import Line, Span, Style, cells, printable


class SharedRenderer:
    """A subscriber that passes everything to `renderer`, one thread at a time."""

    def __init__(self, renderer: TerminalRenderer) -> None:
        self._renderer = renderer
        self._lock = Lock()
        self.has_begun = False
        """Whether the session was shown here before, so that reopening it needs no message."""
        self._told: set[str] = set()

    def on_event(self, event: Event) -> None:
        with self._lock:
            if self.has_begun and isinstance(event, SessionStartedObservation):
                self._renderer.begin_session(event)
            else:
                self._renderer.on_event(event)

    def on_progress(self, progress: Progress) -> None:
        if isinstance(progress, Notice):
            if self.has_begun and progress.text in self._told:
                return
            self._told.add(progress.text)
        with self._lock:
            self._renderer.on_progress(progress)

    def expect(self, calls: Iterable[Action]) -> None:
        with self._lock:
            self._renderer.expect(calls)

    def show(self, kind: Kind, lines: Sequence[Line], *, words: bool = False) -> None:
        with self._lock:
            self._renderer.show(kind, lines, words=words)

    def pause(self) -> None:
        with self._lock:
            self._renderer.pause()

    def closing_line(self, summary: RunSummary) -> None:
        with self._lock:
            self._renderer.closing_line(summary)

    def close(self) -> None:
        with self._lock:
            self._renderer.close()

    def tick(self) -> None:
        """Advance clocks and spinners, unless something is being drawn anyway."""
        if self._lock.acquire(blocking=False):
            try:
                self._renderer.tick()
            finally:
                self._lock.release()


_MODE_STYLES: dict[str, Style] = {"plan": "cyan", "auto-edit": "yellow", "yolo": "red bold"}
_NEARLY_FULL = 80
_BETWEEN = " · "


class ConversationStatus:
    """The status of the followed session: its model, how full the window is, cost if known, cached
    share, mode."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._session: SessionLog | None = None
        self._window = self._prompt_tokens = self._cached_tokens = 0

    def follow(self, session: SessionLog, catalog: Catalog) -> None:
        self._session = session
        self.model = session.state.model
        self._window = catalog.context_tokens(self.model)
        self._prompt_tokens = self._cached_tokens = 0
        for event in reversed(session.events[-200:]):
            if event.llm_metrics is not None:
                self.on_event(event)
                break

    def unfollow(self) -> None:
        self._session = None
        self._prompt_tokens = 0

    def on_event(self, event: Event) -> None:
        metrics = event.llm_metrics
        if metrics is not None and metrics.part == "main":
            self._prompt_tokens = metrics.prompt_tokens
            self._cached_tokens = metrics.cache_read_tokens

    def on_progress(self, progress: Progress) -> None:
        """Do nothing: no progress is shown here."""

    def line(self, settings: Settings, width: int) -> Line:
        """Return the line; if there is not enough room, facts between model and mode are left out,
        last first."""
        facts: list[Span] = [Span(printable(self.model, multiline=False), "dim")]
        if self._prompt_tokens and self._window:
            full = 100 * self._prompt_tokens // self._window
            facts.append(Span(f"{full}% context", "yellow" if full >= _NEARLY_FULL else "dim"))
        session = self._session
        cost = session.state.cost_usd if session is not None and session.state.iteration else None
        if cost is not None:
            facts.append(Span(money(cost), "dim"))
        if self._prompt_tokens:
            share = 100 * self._cached_tokens // self._prompt_tokens
            facts.append(Span(f"{share}% cached", "dim"))
        mode = settings.agent.approval
        facts.append(Span(f"{mode} (Shift-Tab)", _MODE_STYLES.get(mode, "dim")))
        while len(facts) > 2 and cells(_BETWEEN.join(fact.text for fact in facts)) + 2 > width:
            del facts[-2]
        between = [part for fact in facts for part in (Span(_BETWEEN, "dim"), fact)]
        return [Span("  "), *between[1:]]
