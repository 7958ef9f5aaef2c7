"""Asks the user at the terminal whether an action may run, and what the model wants to know."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from agentcli.events import Action
from agentcli.events.approval import Approval
from agentcli.events.base import Risk
from agentcli.ui.answer_dialogue import AnswerDialogue, ask_for_answer
from agentcli.ui.approval_dialogue import ApprovalDialogue
from agentcli.ui.approval_line_mode import LineTerminal, ask_for_approval
from agentcli.ui.approval_question import RuleOffers, question_about
from agentcli.ui.approval_terminal import TTY, Closed, line_mode, open_patiently, write
from agentcli.ui.live import terminal_size
from agentcli.ui.plain import terminal_colors
from agentcli.ui.style import paint

if TYPE_CHECKING:
    from agentcli.ui.approval_interactive import KeyDialogue

AnswerT = TypeVar("AnswerT")


class TerminalApprover:
    """Asks on the controlling terminal, wherever stdin and stdout go.

    On a terminal that can be drawn on, a key answers and the question disappears; with `folds` one
    line of it stays, for users whose screen shows no calls. Elsewhere the question is printed and
    a line answers it. `suspended` is entered for as long as the terminal is used, and
    `before_asking` is then called, so that whatever else draws on the terminal can make room.
    `offers` provides the rules that a lasting answer could save; without a rule, or if the risk is
    high, the action can only be allowed once. `current_text` returns the present content of a file
    to be written, None if it is unknown. A terminal that hangs up gets `timeout_s` to come back;
    otherwise there is no limit on the time to answer.
    """

    def __init__(
        self,
        tty_path: str = TTY,
        *,
        offers: RuleOffers,
        current_text: Callable[[str], str | None] = lambda path: None,
        before_asking: Callable[[], None] = lambda: None,
        suspended: Callable[[], AbstractContextManager[None]] = nullcontext,
        timeout_s: float = 60.0,
        folds: bool = False,
    ) -> None:
        self._tty_path = tty_path
        self._offers = offers
        self._current_text = current_text
        self._before_asking = before_asking
        self._suspended = suspended
        self._timeout_s = timeout_s
        self._folds = folds
        self._colors = terminal_colors(os.environ)

    def ask(self, action: Action, reason: str, *, risk: Risk = Risk.UNKNOWN) -> Approval:
        """Show the whole `action` and wait for an answer. `reason` is why it is asked.

        The end of input is a no, and so is a terminal that goes away, at any time. An interrupt
        passes through.
        """
        question = question_about(
            action, reason, risk=risk, offers=self._offers, current_text=self._current_text
        )
        try:
            return self._answer_to(
                ApprovalDialogue(question), lambda terminal: ask_for_approval(terminal, question)
            )
        except Closed as closed:
            return Approval(False, reason=f"no answer: {closed}")

    def answer(self, question: str, options: Sequence[str]) -> str | None:
        """Ask the user a question of the model's; None if they don't answer it."""
        dialogue = AnswerDialogue(question, options)
        try:
            return self._answer_to(dialogue, lambda line: ask_for_answer(line, dialogue)).text
        except Closed:
            return None

    def _answer_to(
        self, dialogue: KeyDialogue[AnswerT], ask_by_line: Callable[[LineTerminal], AnswerT]
    ) -> AnswerT:
        """Ask on the screen, or line by line if the terminal can't be drawn on or the question does
        not fit. Raises Closed."""
        with self._suspended():
            self._before_asking()
            fd = open_patiently(self._tty_path, self._timeout_s)
            try:
                size = columns, rows = terminal_size(fd)
                if self._colors != "none" and dialogue.fits(columns - 1, rows - 1):
                    return self._answer_by_keys(fd, dialogue)
                with line_mode(fd):
                    return ask_by_line(LineTerminal(fd, size, self._colors, self._timeout_s))
            finally:
                os.close(fd)

    def _answer_by_keys(self, fd: int, dialogue: KeyDialogue[AnswerT]) -> AnswerT:
        from agentcli.ui.approval_interactive import ask_by_keys

        answer = ask_by_keys(fd, dialogue, self._colors, self._timeout_s)
        if self._folds:
            folded = dialogue.folded(answer, terminal_size(fd)[0] - 1)
            write(fd, paint(folded, self._colors) + "\n")
        return answer
