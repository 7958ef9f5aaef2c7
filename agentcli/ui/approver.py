"""Ask the user at the terminal whether an action may run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from agentcli.errors import TurnInterrupted
from agentcli.events import Action
from agentcli.events.base import Risk
from agentcli.ui.answer_dialogue import Answer, AnswerDialogue, ask_by_line
from agentcli.ui.approval_dialogue import Dialogue
from agentcli.ui.approval_line_mode import LineDialogue
from agentcli.ui.approval_question import Approval, NoRules, Question, RuleOffers, question_about
from agentcli.ui.approval_terminal import (
    TTY,
    Closed,
    can_ask,
    line_mode,
    open_patiently,
    write,
)
from agentcli.ui.live import terminal_size
from agentcli.ui.plain import is_plain
from agentcli.ui.style import Colors, paint

if TYPE_CHECKING:
    from agentcli.ui.approval_interactive import KeyDialogue

AnswerT = TypeVar("AnswerT")


class TerminalApprover:
    """Asks on the controlling terminal, wherever stdin and stdout go.

    On a terminal that can be drawn on, a key answers and the question disappears; with `folds` one
    line of it stays, for users whose screen shows no calls. Elsewhere the question is printed and
    a line answers it. `before_asking` is called first, so that whatever else draws on the terminal
    can make room. `offers` provides the rules that a lasting answer could save; without a rule, or
    if the risk is high, the action can only be allowed once. `current_text` returns the present
    content of a file to be written, None if it is unknown. A terminal that hangs up gets
    `timeout_s` to come back; otherwise there is no limit on the time to answer.
    """

    def __init__(
        self,
        tty_path: str = TTY,
        *,
        before_asking: Callable[[], None] = lambda: None,
        offers: RuleOffers | None = None,
        current_text: Callable[[str], str | None] = lambda path: None,
        timeout_s: float = 60.0,
        folds: bool = False,
    ) -> None:
        self._tty_path = tty_path
        self._before_asking = before_asking
        self._offers = offers or NoRules()
        self._current_text = current_text
        self._timeout_s = timeout_s
        self._folds = folds
        self._can_draw = not is_plain(os.environ)

    def available(self) -> bool:
        """Return whether there is a user to ask."""
        return can_ask(self._tty_path)

    def ask(self, action: Action, reason: str, *, risk: Risk = Risk.UNKNOWN) -> Approval:
        """Show the whole `action` and wait for an answer. `reason` is why it is asked.

        The end of input is a no, and so is a terminal that goes away, at any time. An interrupt
        passes through.
        """
        self._before_asking()
        question = question_about(
            action,
            reason,
            risk=risk,
            offers=self._offers,
            current_text=self._current_text,
        )
        try:
            with self._terminal() as fd:
                return self._approval(fd, question)
        except Closed as closed:
            return Approval(False, reason=f"no answer: {closed}")

    def answer(self, question: str, options: Sequence[str]) -> str | None:
        """Ask the user a question of the model's; None if they don't answer it."""
        self._before_asking()
        try:
            with self._terminal() as fd:
                return self._answer(fd, AnswerDialogue(question, options)).text
        except Closed:
            return None

    @contextmanager
    def _terminal(self) -> Iterator[int]:
        fd = open_patiently(self._tty_path, self._timeout_s)
        try:
            yield fd
        finally:
            os.close(fd)

    def _answer(self, fd: int, dialogue: AnswerDialogue) -> Answer:
        if (answer := self._by_keys(fd, dialogue)) is not None:
            return answer
        with line_mode(fd):
            columns = terminal_size(fd)[0]
            return ask_by_line(fd, dialogue, columns, self._colors, self._timeout_s)

    def _approval(self, fd: int, question: Question) -> Approval:
        if (approval := self._by_keys(fd, Dialogue(question))) is not None:
            return approval
        with line_mode(fd):
            try:
                lines = LineDialogue(fd, question, terminal_size(fd), self._colors)
                return lines.ask(self._timeout_s)
            except (TurnInterrupted, KeyboardInterrupt):
                write(fd, "\n")
                raise

    def _by_keys(self, fd: int, dialogue: KeyDialogue[AnswerT]) -> AnswerT | None:
        """Ask on the screen; None if the terminal can't be drawn on or the question doesn't fit."""
        columns, height = terminal_size(fd)
        if not self._can_draw or not dialogue.fits(columns - 1, height - 1):
            return None
        from agentcli.ui.approval_interactive import ask_by_keys

        answer = ask_by_keys(fd, dialogue, self._colors, self._timeout_s)
        if self._folds:
            folded = dialogue.folded(answer, terminal_size(fd)[0] - 1)
            write(fd, paint(folded, self._colors) + "\n")
        return answer

    @property
    def _colors(self) -> Colors:
        if not self._can_draw:
            return "none"
        return "mono" if os.environ.get("NO_COLOR") else "full"
