"""What a user wants at the prompt, handed from the prompt's thread to the main thread; what is said
meanwhile waits here.
"""

from __future__ import annotations

import errno
import os
import signal
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import RLock
from typing import TYPE_CHECKING

from agentcli.errors import AgentError, TurnInterrupted, UsageError
from agentcli.ui.prompt.control import Completion, LinePrompt, Prompt, Submission, Waiting
from agentcli.ui.text import Line, Span

if TYPE_CHECKING:
    from agentcli.cli.conversation.mailbox import SessionMailbox


@dataclass(frozen=True)
class _Entry:
    """Something that waits: a message in the inbox, with its id there, or a command that runs after
    the turn. While `held`, it may be either and has no id."""

    submission: Submission
    message_id: str = ""
    held: bool = False

    @property
    def after_turn(self) -> bool:
        return not self.message_id or self.submission.delivery == "queue"


class WaitingInputs:
    """The waiting inputs of a conversation, safe to use from both its threads. `mailbox` is None
    where there is no session."""

    def __init__(self) -> None:
        self.mailbox: SessionMailbox | None = None
        self._entries: list[_Entry] = []
        self._lock = RLock()

    def add_message(self, submission: Submission) -> None:
        """Add a message for the working session. Raises AgentError."""
        mailbox = self.mailbox
        if mailbox is None:
            raise UsageError("no session is open just now: send it again")
        with self._lock:
            self._entries.append(_Entry(submission, mailbox.put(submission)))

    def add_command(self, submission: Submission) -> None:
        with self._lock:
            self._entries.append(_Entry(submission))

    def all(self) -> list[Waiting]:
        """Return all waiting inputs in order: messages from other terminals, then the user's own,
        then held ones."""
        return [
            Waiting(entry.submission.text, entry.held, entry.after_turn)
            for entry in self._current()
        ]

    def take(self, number: int) -> Submission | None:
        """Remove and return the input at `number` of `all` (-1: the newest); None without one."""
        with self._lock:
            current = self._current()
            if not -len(current) <= number < len(current):
                return None
            taken = current[number]
            self._remove(taken)
            return taken.submission

    def take_back(self) -> Submission | None:
        """Remove and return the newest of the user's own inputs."""
        with self._lock:
            own = [number for number, e in enumerate(self._current()) if e in self._entries]
            return self.take(own[-1]) if own else None

    def hold(self) -> bool:
        """Hold everything that waits; False if nothing does."""
        with self._lock:
            for entry in self._current():
                self._remove(entry)
                self._entries.append(replace(entry, message_id="", held=True))
            return bool(self._entries)

    def release(self) -> bool:
        """Let held inputs wait as before; False if there are none. Raises AgentError."""
        with self._lock:
            held = [entry for entry in self._entries if entry.held]
            for entry in held:
                if not entry.submission.is_command and self.mailbox is None:
                    continue
                self._entries.remove(entry)
                if entry.submission.is_command:
                    self.add_command(entry.submission)
                else:
                    self.add_message(entry.submission)
            return bool(held)

    def next_command(self) -> Submission | None:
        """Remove and return the oldest command."""
        with self._lock:
            for entry in self._entries:
                if not entry.message_id and not entry.held:
                    self._entries.remove(entry)
                    return entry.submission
        return None

    def _current(self) -> list[_Entry]:
        """Return the waiting entries, without messages that the session has read."""
        with self._lock:
            mailbox = self.mailbox
            texts = mailbox.texts() if mailbox is not None else {}
            self._entries = [e for e in self._entries if not e.message_id or e.message_id in texts]
            own = {entry.message_id for entry in self._entries}
            others = [_Entry(Submission(texts[name]), name) for name in texts if name not in own]
            return [*others, *sorted(self._entries, key=lambda entry: entry.held)]

    def _remove(self, entry: _Entry) -> None:
        mailbox = self.mailbox
        if entry.message_id and mailbox is not None:
            mailbox.remove(entry.message_id)
        if entry in self._entries:
            self._entries.remove(entry)


_STOPPING = "stopping; Ctrl-C again ends agent at once"


@dataclass(frozen=True, slots=True)
class ContinueWork:
    """Work on the waiting messages, or continue where work stopped."""


@dataclass(frozen=True, slots=True)
class Quit:
    """End the conversation; `failure` is the error that broke the prompt, if that is why."""

    failure: BaseException | None = None


Input = Submission | ContinueWork | Quit


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
    on_tick: Callable[[], None] = lambda: None
    next_approval_mode: Callable[[], None] = lambda: None
    to_background: Callable[[], None] = lambda: None
    unfold: Callable[[], None] = lambda: None
    status: Callable[[], Line] = lambda: [Span("starting …", "dim")]
    complete: Callable[[str], tuple[int, Sequence[Completion]]] = lambda text: (0, ())
    prompt: Prompt | None = None
    _interrupts: int = 0
    _spoke_since: bool = False
    """Whether the user entered something after the interrupt, which ends its hold."""

    # --- for the prompt's thread

    def submit(self, submission: Submission) -> None:
        text = submission.text
        self._spoke_since |= bool(self._interrupts and text)
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
        if isinstance(error, OSError | termios.error) and error.args[:1] == (errno.EIO,):
            # The terminal is gone. The signal of the hang-up ends the work; where it is ignored,
            # the turn is finished first.
            self.leaving = True
            self.inputs.put(Quit(TurnInterrupted("terminated", 143)))
            return
        self.inputs.put(Quit(error))
        if self.is_working:
            os.kill(os.getpid(), signal.SIGINT)

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

    def queued(self) -> list[Waiting]:
        return self.waiting.all()

    def take_back(self) -> str | None:
        taken = self.waiting.take_back()
        return taken.typed if taken is not None else None

    def _say(self, text: str) -> None:
        if self.prompt is not None:
            self.prompt.say(text)

    # --- for the main thread

    def begin_work(self) -> None:
        self._interrupts = 0
        self.is_working = True
        # Messages that arrived since the last input wait, like those said from now on.
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
            self.held = not self._spoke_since
            self._say("")
        self._interrupts = 0
        self._spoke_since = False

    def next_command(self) -> Submission | None:
        """Take the oldest command that waited for the end of the turn, unless input is held."""
        return None if self.held else self.waiting.next_command()


_INTERRUPTED = 130
_AGAIN_S = 2.0


class LineInputs(SimpleQueue[Input]):
    """The inputs of `control` when its prompt has no thread of its own."""

    def __init__(self, control: ConversationControl, prompt: LinePrompt) -> None:
        super().__init__()
        self._control = control
        self._prompt = prompt
        self._interrupted_at = -_AGAIN_S

    def get(self, block: bool = True, timeout: float | None = None) -> Input:
        while self.empty():
            try:
                text = self._prompt.read()
            except TurnInterrupted as interrupt:
                if interrupt.exit_code != _INTERRUPTED:
                    raise
                now = time.monotonic()
                if now - self._interrupted_at < _AGAIN_S:
                    self._prompt.say("\nleaving")
                    return Quit()
                self._interrupted_at = now
                self._prompt.say("\nCtrl-C again leaves")
                continue
            if text is None:
                return Quit()
            self._control.submit(Submission(text))
        return super().get()
