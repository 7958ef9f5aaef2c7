"""A conversation: what the user says is worked on in turns, in one session after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder, Prepared
from agentcli.app.attachments import attached, with_images
from agentcli.app.configuration.config import require_unmanaged
from agentcli.app.open_session import OpenSession
from agentcli.app.user_commands import OwnCommands
from agentcli.cli.conversation.control import ContinueWork, ConversationControl, Quit
from agentcli.cli.conversation.display import ConversationStatus, SharedRenderer
from agentcli.cli.conversation.mailbox import SessionMailbox, with_mentioned
from agentcli.cli.running.outcome import (
    failure_result,
    interruption_result,
    notifier_of,
    summarise_run,
)
from agentcli.errors import (
    AgentError,
    ConfigError,
    NothingChosen,
    TurnInterrupted,
    UsageError,
    os_error_text,
)
from agentcli.events import Event, Progress
from agentcli.evidence.deferred import DeferredEvidence
from agentcli.interrupts import shield, unshielded
from agentcli.sessions import inbox
from agentcli.sessions.history import SessionTotals
from agentcli.sessions.session import SessionLog, Subscriber
from agentcli.sessions.state import AgentState
from agentcli.settings import Settings
from agentcli.ui.notices import error_line
from agentcli.ui.notifier import TerminalNotifier
from agentcli.ui.prompt.control import Prompt, Submission
from agentcli.ui.summary import count
from agentcli.ui.text import Line, Span, Style, printable

MODES = ("ask", "auto-edit", "plan")
"""The order in which Shift-Tab cycles through the modes; yolo is added if the conversation began
with it."""
_TERMINATED = 143


class Conversation:
    """A conversation at one prompt; it subscribes to its sessions. `builder` makes sessions under
    the settings in force, and `command` runs input that begins with `/` or `!`."""

    def __init__(
        self,
        builder: AgentBuilder,
        control: ConversationControl,
        prompt: Prompt,
        renderer: SharedRenderer,
        command: Callable[[Conversation, Submission], None],
        name: str | None,
        ready: Prepared,
    ) -> None:
        self.builder = builder
        self.control = control
        self.prompt = prompt
        self.opened: OpenSession | None = None
        self.own_commands = OwnCommands()
        self.status = ConversationStatus(ready.models.chain("main").model)
        self._command = command
        self.name = name
        """Name of the next session to begin."""
        self._ready: Prepared | None = ready
        self._counter = SessionTotals()
        self._evidence = DeferredEvidence()
        self._notifier: TerminalNotifier | None = None
        self._stale = False
        """Whether the disk may be ahead of the open session."""
        self._lost: Path | None = None
        """Folder of the session that is to be reopened once that is possible again."""
        self._sealed = False
        """Whether the session was opened in plan mode, so that its sandbox writes nothing."""
        self._renderer = renderer
        self._last: Path | None = None
        """Folder of the session that was open last."""
        self.load_builder: Callable[[Path], AgentBuilder] = lambda workspace: replace(
            builder, workspace=workspace
        )
        """Returns a builder under the settings in force in another folder. Raises ConfigError."""
        control.on_tick = self._renderer.tick
        control.next_approval_mode = self._next_mode
        control.to_background = self._to_background
        control.status = lambda: self.status.line(self.settings, self.width)

    # --- what the user does

    def run(self, first: Submission | None) -> int:
        """Run until the user leaves; return the exit code."""
        with shield():
            try:
                if first is not None:
                    self._take(first)
                while True:
                    code = self._next()
                    if code is not None:
                        return code
            finally:
                if self.opened is not None and self.opened.session.state.title:
                    self.tell(f"to go on: agent -r {self.opened.session.id}")
                with suppress(AgentError):
                    # Messages that were held stay with the session, for whoever continues it.
                    self.control.waiting.release()
                self.close_session()

    def _next(self) -> int | None:
        try:
            waiting = None if self.control.leaving else self.control.next_command()
            with unshielded():
                given = waiting or self.control.inputs.get()
            match given:
                case Quit(failure=None):
                    return 0
                case Quit(failure=BaseException() as failure):
                    raise failure
                case ContinueWork():
                    self._go_on()
                case Submission():
                    self._take(given)
        except TurnInterrupted as interrupt:
            if interrupt.exit_code == _TERMINATED:
                return _TERMINATED
        return None

    def _take(self, given: Submission) -> None:
        """Handle one input. Raises TurnInterrupted when the process is to end."""
        try:
            if given.is_command:
                self.show_said(given.text)
                with unshielded():
                    self._command(self, given)
            else:
                self.say(given)
        except NothingChosen:
            self.tell("nothing chosen")
        except (AgentError, OSError) as error:
            self.show_error(error)
        except TurnInterrupted as interrupt:
            if interrupt.exit_code == _TERMINATED:
                raise
            self.tell("interrupted")

    def say(self, given: Submission, typed: str | None = None) -> None:
        """Send a message of the user and work on it; `typed` is the command that produced it."""
        try:
            images = attached(given.images, self.builder.why_unread)
            said = with_mentioned(given.text, self.builder.home)
            opened = self.open_session()
            if typed is None:
                self.show_said(given.text)
            if inbox.waiting(opened.session.folder):
                # Messages that were said earlier come first.
                text, urls = with_images(said, images, opened.session.state.model)
                inbox.put(opened.session.folder, text, "steer", urls)
            else:
                opened.say(said, images, typed or given.text)
        except (AgentError, OSError):
            self.prompt.put(typed or given.typed)
            raise
        self._work()

    def _go_on(self) -> None:
        """Work on messages in the inbox, or continue where work was left."""
        opened = self.opened
        if opened is None:
            return
        waiting = inbox.waiting(opened.session.folder)
        if waiting or opened.session.state.agent_state is AgentState.PAUSED:
            try:
                self.open_session()
                self._work()
            except AgentError as error:
                self.show_error(error)

    # --- sessions

    @property
    def session(self) -> SessionLog:
        """The open session. Raises UsageError while there is none."""
        if self.opened is None:
            raise UsageError("there is no session yet", hint="type what to do first")
        return self.opened.session

    def open_session(self) -> OpenSession:
        """Return this conversation's session, begun if there is none yet. Raises AgentError."""
        if self._lost is not None:
            self.open(self._lost)
        elif (opened := self.opened) is not None and (
            self._stale or opened.session.has_failed or self._sealed != self._planning
        ):
            self.open(opened.session.folder)
        if self.opened is None:
            ready = self._ready or self.builder.prepare()
            self._begin(self.builder.create(self._subscribers, self.name, ready))
            self._ready = self.name = None
        assert self.opened is not None
        return self.opened

    def open(
        self, folder: Path, model: str | None = None, builder: AgentBuilder | None = None
    ) -> None:
        """Continue the session in `folder` instead of the open one; `builder` is needed where it
        works in another folder. Raises AgentError; the previous session is then open again."""
        before = self.opened.session.folder if self.opened is not None else None
        builder_before = self.builder
        self.close_session()
        try:
            self._use(builder or builder_before)
            self._reopen(folder, model)
        except AgentError:
            self._use(builder_before)
            if before == folder:
                self._lost = folder
            elif before is not None and before.exists():
                self._reopen(before)
            raise

    def builder_for_folder(self, workspace: Path) -> AgentBuilder | None:
        """Return the builder for a session of another folder, with that folder's settings but in
        plan mode if this conversation is; None for a session of this folder. Raises ConfigError."""
        if workspace == self.builder.workspace:
            return None
        builder = self.load_builder(workspace)
        if not self._planning:
            return builder
        return replace(builder, settings=builder.settings.changed(agent={"approval": "plan"}))

    def _use(self, builder: AgentBuilder) -> None:
        if builder is not self.builder:
            self.builder, self._ready = builder, None

    def _reopen(self, folder: Path, model: str | None = None) -> None:
        self._renderer.has_begun = folder == self._last
        self._begin(self.builder.reopen(folder, self._subscribers, model, has_message=True))

    def _begin(self, opened: OpenSession) -> None:
        self.opened = opened
        self._last = opened.session.folder
        self._renderer.has_begun = False
        self._stale, self._lost, self._sealed = False, None, self._planning
        self._follow(opened)
        self.control.waiting.mailbox = SessionMailbox(
            opened.session, self.builder.home, self.builder.why_unread
        )

    def _follow(self, opened: OpenSession) -> None:
        self.status.follow(opened.session, self.builder.catalog())

    @contextmanager
    def session_at_rest(self) -> Iterator[SessionLog]:
        """Yield the session with no work running in it, so that its files and its past can be
        changed; it is reopened afterwards. Raises UsageError while there is none."""
        folder = self.session.folder
        self.close_session()
        try:
            with SessionLog.open(folder) as session:
                yield session
        finally:
            self.open(folder)

    def close_session(self, reason: str = "ended") -> None:
        """Close the session; the next message begins a new one."""
        opened, self.opened = self.opened, None
        self.control.waiting.mailbox = None
        self.status.unfollow()
        if opened is not None:
            jobs = opened.running_jobs()
            opened.close(reason)
            if jobs:
                self.tell(f"{count(len(jobs), 'command')} in the background ended with it")
        if self._notifier is not None:
            self._notifier.close()

    def begin_anew(self) -> None:
        """Let the next message begin a session, whose model is found now. Raises ConfigError when
        there is none."""
        self.close_session()
        self._lost = None
        self._ready = self.builder.prepare()
        self.status.model = self._ready.models.chain("main").model

    def change_settings(self, **sections: Mapping[str, object]) -> None:
        """Change values of the settings from now on, by section and name."""
        self.builder = replace(self.builder, settings=self.settings.changed(**sections))
        self._ready = None

    def use_model(self, name: str) -> None:
        """Use the model from the next request on. Raises ConfigError when it can't be used; nothing
        changes then."""
        require_unmanaged("model.name", self.builder.origins)
        before = self.builder
        self.change_settings(model={"name": name})
        try:
            if self.opened is None:
                self.begin_anew()
            else:
                self.builder.use_model(self.opened, name)
                self._follow(self.opened)
        except ConfigError:
            self.builder = before
            raise

    def use_effort(self, effort: str) -> None:
        """Set the effort, as `model.effort` does, from the next request on. Raises ConfigError."""
        require_unmanaged("model.effort", self.builder.origins)
        self.change_settings(model={"effort": effort})
        if self.opened is not None:
            self.opened.agent = replace(self.opened.agent, effort=effort or None)

    @property
    def settings(self) -> Settings:
        return self.builder.settings

    @property
    def _planning(self) -> bool:
        return self.settings.agent.planning

    def _subscribers(self, session: SessionLog) -> Sequence[Subscriber]:
        self._renderer.expect(session.pending_actions())
        self._notifier = notifier_of(session, self.settings.ui)
        self._evidence = DeferredEvidence(session.events)
        return [self._renderer, self.status, self, self._notifier]

    # --- turns

    def _work(self) -> None:
        """Work for one turn and show how it ended. Raises TurnInterrupted to end the process."""
        assert self.opened is not None
        opened, began = self.opened, time.monotonic()
        self._counter = SessionTotals()
        self.control.begin_work()
        try:
            with unshielded():
                result = opened.work()
        except TurnInterrupted as interrupt:
            result = interruption_result(interrupt)
        except (AgentError, OSError) as error:
            # What could not be recorded is lost: the session must continue from what is on disk.
            self._stale = True
            result = failure_result(error)
        finally:
            self.control.end_work()
        summary = summarise_run(
            opened.session,
            self._counter,
            self._evidence.evidence,
            result,
            duration_s=time.monotonic() - began,
        )
        with suppress(OSError):
            self._renderer.closing_line(replace(summary, resume_command=""))
        if result.exit_code == _TERMINATED:
            raise TurnInterrupted("terminated", _TERMINATED)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let a slow command be interrupted, and queue messages, if a session is open."""
        if self.opened is None:
            yield
            return
        self.control.begin_work()
        try:
            yield
        finally:
            self.control.end_work()
            self._renderer.close()

    def on_event(self, event: Event) -> None:
        """Count what the turn does."""
        self._counter.on_event(event)
        self._evidence.on_event(event)

    def on_progress(self, progress: Progress) -> None:
        """Ignore progress."""

    def _to_background(self) -> None:
        """Runs on the prompt's thread."""
        opened = self.opened
        if opened is not None and opened.context.shell.send_to_background():
            self.prompt.say("the command goes on in the background")
        else:
            self.prompt.say("no command is running, so there is nothing to send to the background")

    def _next_mode(self) -> None:
        """Runs on the prompt's thread."""
        agent = self.builder.settings.agent
        modes = MODES if agent.approval != "yolo" else (*MODES, "yolo")
        mode = modes[(modes.index(agent.approval) + 1) % len(modes)]
        try:
            self.set_mode(mode)
        except ConfigError as error:
            self.prompt.say(error.message)

    def set_mode(self, mode: str) -> None:
        """Set the mode from the next action on. Between plan and other modes the sandbox differs
        too, so the session is reopened before the next message. Raises ConfigError."""
        require_unmanaged("agent.approval", self.builder.origins)
        self.change_settings(agent={"approval": mode})
        if self.opened is not None:
            self.opened.policy.set_mode(mode)

    # --- the screen

    @property
    def width(self) -> int:
        """The number of columns that a line may take."""
        return self.prompt.region.size()[0] - 1

    def print(self, *lines: Line, whole: bool = False) -> None:
        """Print lines that stay above the prompt. Long lines are broken at words; `whole` lines are
        broken only where the terminal's row ends, so that copying them gives the exact text."""
        self._renderer.show("note", lines, words=not whole)

    def tell(self, *texts: str, style: Style = "dim") -> None:
        """Print each text as a line in one style."""
        self.print(*([Span(text, style)] for text in texts))

    def show_said(self, text: str) -> None:
        if self.prompt.shows_what_is_typed:
            return
        said = printable(text.strip()).replace("\n", "\n  ")
        self._renderer.show("user", [[Span(row, "bold")] for row in f"> {said}".split("\n")])

    def show_error(self, error: AgentError | OSError) -> None:
        message = error.message if isinstance(error, AgentError) else os_error_text(error)
        lines: list[Line] = [error_line(message)]
        if isinstance(error, AgentError) and error.hint:
            lines.append([Span(printable(error.hint), "")])
        self.print(*lines)
