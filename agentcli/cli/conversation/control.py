"""What a person at the prompt wants, handed from the prompt's thread to the main one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from agentcli.errors import AgentError
from agentcli.ui.prompt.control import Completion, Submission
from agentcli.ui.style import Line, Span

if TYPE_CHECKING:
    from agentcli.ui.prompt.conversation_prompt import ConversationPrompt

_STOPPING = "stopping; Ctrl-C again ends agent at once"


@dataclass(frozen=True, slots=True)
class GoOn:
    """Work on what waits, or where it stopped."""


@dataclass(frozen=True, slots=True)
class Leave:
    """End the conversation; `failure` is what broke the prompt, if that is why."""

    failure: BaseException | None = None


Input = Submission | GoOn | Leave


class Mailbox(Protocol):
    """The messages that wait for the session to hear them."""

    def put(self, submission: Submission) -> str:
        """Returns its id. Raises AgentError."""

    def remove(self, message_id: str) -> None: ...
    def texts(self) -> dict[str, str]:
        """Of all that wait, by id, oldest first."""


@dataclass
class _Waiting:
    """Either a message in the inbox or a command that runs after the turn."""

    submission: Submission
    message_id: str = ""


def _nothing() -> None:
    """Where there is nobody to tell yet."""


@dataclass
class ConversationControl:
    """The prompt's side of a conversation. What the main thread sets is read by the prompt's
    thread; what the person wants comes out of `inputs`."""

    inputs: SimpleQueue[Input] = field(default_factory=SimpleQueue)
    is_working: bool = False
    leaving: bool = False
    held: bool = False
    """What waits is kept until the person says something: they interrupted."""
    mailbox: Mailbox | None = None
    """None: there is no session yet."""
    runs_at_once: Callable[[str], bool] = lambda text: False
    """Runs a command that need not wait for the end of the turn; False if it is none."""
    on_tick: Callable[[], None] = _nothing
    on_next_mode: Callable[[], None] = _nothing
    on_background: Callable[[], None] = _nothing
    on_unfold: Callable[[], None] = _nothing
    status_line: Callable[[], Line] = lambda: [Span("starting …", "dim")]
    completer: Callable[[str], tuple[int, Sequence[Completion]]] = lambda text: (0, ())
    prompt: ConversationPrompt | None = None
    _waiting: list[_Waiting] = field(default_factory=list)
    _interrupts: int = 0

    # --- for the prompt's thread

    def submit(self, submission: Submission) -> None:
        text = submission.text
        if not self.is_working:
            if text or self.queued():
                self.held = False
                self.inputs.put(submission if text else GoOn())
            elif self.mailbox is not None:
                self.inputs.put(GoOn())
        elif submission.is_command and self.runs_at_once(text):
            return
        elif submission.is_command:
            self._waiting.append(_Waiting(submission))
        elif text:
            self._leave_message(submission)

    def _leave_message(self, submission: Submission) -> None:
        assert self.mailbox is not None
        try:
            message_id = self.mailbox.put(submission)
        except AgentError as error:
            self._say(str(error))
            if self.prompt is not None:
                self.prompt.put(submission.text)
            return
        self._waiting.append(_Waiting(submission, message_id))

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
            return
        self.leaving = True
        self.inputs.put(Leave())
        if self.is_working:
            self.interrupt()

    def prompt_failed(self, error: BaseException) -> None:
        self.inputs.put(Leave(error))
        if self.is_working:
            os.kill(os.getpid(), signal.SIGINT)

    def next_approval_mode(self) -> None:
        self.on_next_mode()

    def to_background(self) -> None:
        self.on_background()

    def unfold(self) -> None:
        self.on_unfold()

    def rewind(self) -> None:
        if self.mailbox is not None:
            self.inputs.put(Submission("/rewind"))

    def tick(self) -> None:
        self.on_tick()
        idle = not (self.is_working or self.held or self.leaving)
        if idle and self.mailbox is not None and self.mailbox.texts():
            # `agent tell`, from another terminal.
            self.inputs.put(GoOn())

    def status(self) -> Line:
        return self.status_line()

    def queued(self) -> list[str]:
        texts = self._drop_delivered()
        own = {each.message_id for each in self._waiting}
        others = [text for message_id, text in texts.items() if message_id not in own]
        return [*others, *(each.submission.text for each in self._waiting)]

    def take_back(self) -> str | None:
        self._drop_delivered()
        if not self._waiting:
            return None
        taken = self._waiting.pop()
        if taken.message_id and self.mailbox is not None:
            self.mailbox.remove(taken.message_id)
        return taken.submission.text

    def complete(self, text: str) -> tuple[int, Sequence[Completion]]:
        return self.completer(text)

    def _drop_delivered(self) -> dict[str, str]:
        """Forget what was heard; what waits for the session, by id."""
        texts = self.mailbox.texts() if self.mailbox is not None else {}
        self._waiting = [w for w in self._waiting if not w.message_id or w.message_id in texts]
        return texts

    def _say(self, text: str) -> None:
        if self.prompt is not None:
            self.prompt.say(text)

    # --- for the main thread

    def begin_work(self) -> None:
        self._interrupts = 0
        self.is_working = True

    def end_work(self) -> None:
        self.is_working = False
        if self._interrupts:
            self.held = True
        self._interrupts = 0

    def next_command(self) -> Submission | None:
        """The oldest command that waited for the end of the turn, unless what waits is held."""
        if self.held:
            return None
        for waiting in self._waiting:
            if not waiting.message_id:
                self._waiting.remove(waiting)
                return waiting.submission
        return None
