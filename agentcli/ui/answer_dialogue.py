"""A question from the model to the user, answered by choosing an option or typing text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentcli.ui.approval_dialogue import DIGITS, ENTER, MOVES, moved
from agentcli.ui.approval_line_mode import LineTerminal
from agentcli.ui.approval_question import hanging, keyed, quoted
from agentcli.ui.draft import Draft
from agentcli.ui.sanitize import pasted_text, printable
from agentcli.ui.style import Line, Span, Style, clip
from agentcli.ui.unambiguous_text import reveal_hidden

_TITLE = "The model asks:"


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer; `text` is None if they gave none."""

    text: str | None


class AnswerDialogue:
    """One question until it is answered. Without options, keys are text from the start."""

    def __init__(self, question: str, options: Sequence[str]) -> None:
        self.question = question
        self.options = tuple(options)[: len(DIGITS)]
        self._writes = not self.options
        self._marked: int | None = None
        """Nothing is marked at first, so that an Enter pressed as the question appears chooses
        nothing."""
        self._draft = Draft()
        self._hint = ""

    @property
    def is_typed_into(self) -> bool:
        return self._writes

    def press(self, key: str) -> Answer | None:
        """Handle a key and return the answer, if the key gave one."""
        self._hint = ""
        return self._in_words(key) if self._writes else self._in_options(key)

    def paste(self, text: str) -> None:
        """Insert pasted text; it is no answer until Enter is pressed."""
        self._writes = True
        self._draft.insert(pasted_text(text))

    def _in_options(self, key: str) -> Answer | None:
        if key in MOVES:
            self._marked = moved(self._marked, MOVES[key], len(self.options))
        elif key in ENTER and self._marked is not None:
            return self._take(self._marked)
        elif key in DIGITS[: len(self.options)]:
            return self._take(int(key) - 1)
        elif key.lower() == "t":
            self._writes = True
        elif key == "escape":
            return Answer(None)
        else:
            self._hint = "a number, t, or arrows and Enter; Esc: no answer"
        return None

    def _take(self, number: int) -> Answer | None:
        if number < len(self.options):
            return Answer(self.options[number])
        self._writes = True
        return None

    def _in_words(self, key: str) -> Answer | None:
        if key in ENTER:
            if words := self._draft.text.strip():
                return Answer(words)
            self._hint = "type an answer; Esc: none"
        elif key == "escape":
            if not self.options:
                return Answer(None)
            self._writes, self._draft = False, Draft()
        else:
            self._draft.press(key)
        return None

    # --- what is shown --------------------------------------------------------------------------

    def fits(self, width: int, height: int) -> bool:
        return len(self._rows(width)) + 2 <= height

    def lines(self, width: int, height: int) -> list[Line]:
        return [clip(line, width) for line in self._rows(width)[-height:]]

    def question_rows(self, width: int) -> list[Line]:
        """Return the whole question and the options."""
        lines: list[Line] = [[], [Span(_TITLE, "bold")], [], *quoted(self.question, width), []]
        for number, option in enumerate(self.options):
            marked = number == self._marked
            lines += keyed(DIGITS[number], reveal_hidden(option), width, marked=marked)
        return lines

    def folded(self, answer: Answer, width: int) -> Line:
        """Return the question and its answer in one line."""
        style: Style = "yellow" if answer.text is None else "green"
        told = "not answered" if answer.text is None else f"answered: {reveal_hidden(answer.text)}"
        return clip(
            [Span(reveal_hidden(" ".join(self.question.split()))), Span(f" {told}", style)], width
        )

    def _rows(self, width: int) -> list[Line]:
        lines = self.question_rows(width)
        if self.options:
            marked = self._marked == len(self.options)
            lines += keyed("t", "something else: type it", width, marked=marked)
        told = hanging(self._hint, width, "yellow") if self._hint else []
        if not self._writes:
            return [*lines, *told]
        back = "Esc goes back" if self.options else "Esc: no answer"
        keys = hanging(f"Enter sends it, {back}", width, "dim")
        return [*lines, *told, *keys, *self._draft.lines(width)]


def ask_for_answer(terminal: LineTerminal, dialogue: AnswerDialogue) -> Answer:
    """Ask line by line. The answer is a number or text; an empty line means no answer. Raises
    Closed."""
    width = terminal.size[0]
    told = "a number, or an answer of yours" if dialogue.options else "your answer"
    terminal.print([*dialogue.question_rows(width), *hanging(f"{told}; empty: none", width, "dim")])
    text = printable(terminal.read(), multiline=False).strip()
    if text in DIGITS[: len(dialogue.options)] and text:
        return Answer(dialogue.options[int(text) - 1])
    return Answer(text or None)
