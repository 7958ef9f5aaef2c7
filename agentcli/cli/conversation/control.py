"""What a user wants at the prompt, handed from the prompt's thread to the main thread."""

from __future__ import annotations

import errno
import os
import signal
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from agentcli.cli.conversation.waiting import WaitingInputs
from agentcli.errors import AgentError, TurnInterrupted
from agentcli.ui.prompt.control import Completion, Prompt, Submission, Waiting
from agentcli.ui.style import Line, Span

_STOPPING = "stopping; Ctrl-C again ends agent at once"


def _is_hang_up(error: BaseException) -> bool:
    """Return whether `error` means that the terminal is gone."""
    return isinstance(error, OSError | termios.error) and error.args[:1] == (errno.EIO,)


@dataclass(frozen=True, slots=True)
class ContinueWork:
    """Work on the waiting messages, or continue where work stopped."""


@dataclass(frozen=True, slots=True)
class Quit:
    """End the conversation; `failure` is the error that broke the prompt, if that is why."""

    failure: BaseException | None = None


Input = Submission | ContinueWork | Quit


def _nothing() -> None:
    """Do nothing: the callback until a conversation sets its own."""


@dataclass
class ConversationControl:
    """The prompt's side of a conversation. The prompt's thread reads what the main thread sets;
    what the user wants comes out of `inputs`."""

    inputs: SimpleQueue[Input] = field(default_factory=SimpleQueue)
    is_working: bool = False
    leaving: bool = False
    held: bool = False
    """Whether waiting input is held until the user, who interrupted, says something again."""
    waiting: WaitingInputs = field(default_factory=WaitingInputs)
    runs_at_once: Callable[[str], bool] = lambda text: False
    """Run a command that need not wait for the end of the turn; False if it is no such command."""
    on_tick: Callable[[], None] = _nothing
    on_next_mode: Callable[[], None] = _nothing
    on_background: Callable[[], None] = _nothing
    on_unfold: Callable[[], None] = _nothing
    status_line: Callable[[], Line] = lambda: [Span("starting …", "dim")]
    completer: Callable[[str], tuple[int, Sequence[Completion]]] = lambda text: (0, ())
    prompt: Prompt | None = None
    _interrupts: int = 0

    # --- for the prompt's thread

    def submit(self, submission: Submission) -> None:
        text = submission.text
        if not self.is_working:
            if text or self.queued():
                self.held = False
                self.inputs.put(submission if text else ContinueWork())
            elif self.waiting.mailbox is not None:
                self.inputs.put(ContinueWork())
        elif submission.is_command and self.runs_at_once(text):
            return
        elif submission.is_command:
            self.waiting.add_command(submission)
        elif text:
            self._leave_message(submission)

    def _leave_message(self, submission: Submission) -> None:
        try:
            self.waiting.add_message(submission)
        except AgentError as error:
            self._say(str(error))
            if self.prompt is not None:
                self.prompt.put(submission.typed)

    def interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            os.kill(os.getpid(), signal.SIGINT)
            self._say("stopping …")
        elif self._interrupts == 2:
            self._say(_STOPPING)
        else:
            if self.prompt is not None:
                self.prompt.restore_terminal()
            os._exit(130)

    def leave(self) -> None:
        if self.leaving:
            # The user asks again, so what is still running takes too long.
            self.interrupt()
            return
        self.leaving = True
        self.inputs.put(Quit())
        if self.is_working:
            self.interrupt()

    def prompt_failed(self, error: BaseException) -> None:
        if _is_hang_up(error):
            # The signal of the hang-up ends the work; where it is ignored, the turn is finished
            # first.
            self.leaving = True
            self.inputs.put(Quit(TurnInterrupted("terminated", 143)))
            return
        self.inputs.put(Quit(error))
        if self.is_working:
            os.kill(os.getpid(), signal.SIGINT)

    def next_approval_mode(self) -> None:
        self.on_next_mode()

    def to_background(self) -> None:
        self.on_background()

    def unfold(self) -> None:
        self.on_unfold()

    def rewind(self) -> None:
        if self.waiting.mailbox is not None:
            self.inputs.put(Submission("/rewind"))

    def tick(self) -> None:
        self.on_tick()
        mailbox = self.waiting.mailbox
        idle = not (self.is_working or self.held or self.leaving) and self.inputs.empty()
        if idle and mailbox is not None and mailbox.texts():
            # Another terminal sent it with `agent tell`.
            self.inputs.put(ContinueWork())

    def status(self) -> Line:
        return self.status_line()

    def queued(self) -> list[Waiting]:
        return self.waiting.all()

    def take_back(self) -> str | None:
        taken = self.waiting.take_back()
        return taken.typed if taken is not None else None

    def complete(self, text: str) -> tuple[int, Sequence[Completion]]:
        return self.completer(text)

    def _say(self, text: str) -> None:
        if self.prompt is not None:
            self.prompt.say(text)

    # --- for the main thread

    def begin_work(self) -> None:
        self._interrupts = 0
        self.is_working = True
        self._take_early()

    def _take_early(self) -> None:
        """Let messages that arrived since the last input wait, like those said from now on."""
        given: list[Input] = []
        with suppress(Empty):
            while True:
                given.append(self.inputs.get_nowait())
        for each in given:
            if isinstance(each, Submission):
                self.submit(each)
            elif isinstance(each, Quit):
                self.inputs.put(each)
                if not isinstance(each.failure, TurnInterrupted):
                    self.interrupt()

    def end_work(self) -> None:
        self.is_working = False
        if self._interrupts:
            self.held = True
            self._say("")
        self._interrupts = 0

    def next_command(self) -> Submission | None:
        """Take the oldest command that waited for the end of the turn, unless input is held."""
        return None if self.held else self.waiting.next_command()
