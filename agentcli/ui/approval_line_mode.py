"""Ask a question on a terminal that can't be drawn on: print it whole and read lines as answers."""

from __future__ import annotations

import unicodedata

from agentcli.ui.approval_dialogue import MEANINGS
from agentcli.ui.approval_question import Approval, Question, Scope, hanging, keyed
from agentcli.ui.approval_terminal import read_line, write
from agentcli.ui.sanitize import printable
from agentcli.ui.style import Colors, Line, Span, paint
from agentcli.ui.unambiguous_text import reveal_hidden

_KEYS: dict[str, tuple[bool, Scope]] = {
    "y": (True, "once"),
    "yes": (True, "once"),
    "s": (True, "session"),
    "session": (True, "session"),
    "a": (True, "always"),
    "always": (True, "always"),
    "n": (False, "once"),
    "no": (False, "once"),
}
_ALMOST_YES = frozenset(("ok", "okay", "sure", "yep", "yeah", "yes please", "yes!", "all", "go on"))
_EDIT = frozenset(("e", "edit"))


class LineDialogue:
    """Asks a question at the terminal `fd`, which must be in `line_mode`."""

    def __init__(self, fd: int, question: Question, size: tuple[int, int], colors: Colors) -> None:
        self._fd = fd
        self._question = question
        self._width, self._height = size
        self._colors = colors
        self._rule = question.offered

    def ask(self, timeout_s: float) -> Approval:
        """Print the question and return the user's answer. Raises Closed."""
        keys = "y, s, a, e, n" if self._rule else "y, n"
        self._say([*self._lines(), *self._choices()])
        while True:
            line = self._read(timeout_s)
            answer = _understood(line)
            if self._rule and answer is not None and answer.scope != "once":
                return Approval(True, answer.scope, rule=self._rule)
            if self._rule and line.strip().lower() in _EDIT:
                self._choose_rule(timeout_s)
            elif answer is not None and answer.scope == "once":
                return answer
            else:
                self._say([[Span(f"  {keys}, or a few words for the model")]])

    def _choose_rule(self, timeout_s: float) -> None:
        rules = self._question.rules
        width = self._width
        lines: list[Line] = [[], *hanging("The rule to save, the narrowest first:", width)]
        for number, rule in enumerate(rules, 1):
            lines += keyed(str(number), reveal_hidden(rule), width)
        told = "a number, or a rule such as bash(git push origin:*); empty: as it was"
        self._say([*lines, *hanging(told, width)])
        while text := printable(self._read(timeout_s), multiline=False).strip():
            if text.isdecimal() and 1 <= int(text) <= len(rules):
                text = rules[int(text) - 1]
            why_not = self._question.objection(text)
            if not why_not:
                self._rule = text
                break
            self._say(hanging(reveal_hidden(why_not), width, "yellow"))
        self._say(self._choices())

    def _read(self, timeout_s: float) -> str:
        write(self._fd, paint([Span(">", "bold"), Span(" ")], self._colors))
        return read_line(self._fd, timeout_s)

    def _say(self, lines: list[Line]) -> None:
        write(self._fd, "".join(paint(line, self._colors) + "\n" for line in lines))

    def _lines(self) -> list[Line]:
        question, width = self._question, self._width
        body = question.action_rows(width)
        lines: list[Line] = [[], *hanging(question.title, width, "bold", ""), [], *body]
        if len(body) > self._height - 12:
            lines += hanging(f"{len(body)} rows: scroll up for the first", width, "yellow")
        lines += [*question.place_rows(width), *question.words_rows(width)]
        return [*lines, *question.warnings(width), *question.reason_rows(width), []]

    def _choices(self) -> list[Line]:
        width = self._width
        lines = self._question.rule_rows(self._rule, width)
        choices = [(key, MEANINGS[key]) for key in ("ysae" if self._rule else "y")]
        choices.append(("n", "no; or type what the model should know or do instead"))
        return [*lines, *(line for choice in choices for line in keyed(*choice, width))]


def _understood(line: str) -> Approval | None:
    text = printable(line, multiline=False).strip()
    if any(unicodedata.category(char) == "Cc" for char in line.rstrip("\r\n").replace("\t", " ")):
        # The line has a key such as an arrow in it, which was not meant as an answer.
        return None
    if text.lower() in _KEYS:
        allowed, scope = _KEYS[text.lower()]
        return Approval(allowed, scope)
    if len(text) <= 2 or text.lower().rstrip(".!") in _ALMOST_YES | _EDIT:
        return None
    return Approval(False, reason=text)
