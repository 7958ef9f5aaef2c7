"""Asks a question on a terminal that can't be drawn on: prints it whole and reads lines as
answers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agentcli.errors import TurnInterrupted
from agentcli.events.approval import Approval, Scope
from agentcli.ui.approval_dialogue import MEANINGS
from agentcli.ui.approval_question import Question, hanging, keyed
from agentcli.ui.approval_terminal import read_line, write
from agentcli.ui.sanitize import printable
from agentcli.ui.style import Colors, Line, Span, paint
from agentcli.ui.unambiguous_text import reveal_hidden

_ANSWERS: dict[str, tuple[bool, Scope]] = {
    "yes": (True, "once"),
    "session": (True, "session"),
    "always": (True, "always"),
    "no": (False, "once"),
}
"""What each word means, and its first letter."""
_ALMOST_YES = frozenset(("ok", "okay", "sure", "yep", "yeah", "yes please", "yes!", "all", "go on"))
_EDIT = frozenset(("e", "edit"))


@dataclass(frozen=True)
class LineTerminal:
    """A terminal that reads whole lines. `size` is in columns and rows; one that hangs up gets
    `timeout_s` to come back."""

    fd: int
    size: tuple[int, int]
    colors: Colors
    timeout_s: float

    def print(self, lines: Sequence[Line]) -> None:
        write(self.fd, "".join(paint(line, self.colors) + "\n" for line in lines))

    def read(self) -> str:
        """Return the next line. Raises Closed."""
        write(self.fd, paint([Span(">", "bold"), Span(" ")], self.colors))
        try:
            return read_line(self.fd, self.timeout_s)
        except (TurnInterrupted, KeyboardInterrupt):
            write(self.fd, "\n")
            raise


def ask_for_approval(terminal: LineTerminal, question: Question) -> Approval:
    """Print the question and return the user's answer. Raises Closed."""
    rule = question.offered
    keys = "y, s, a, e, n" if rule else "y, n"
    terminal.print([*_lines(question, *terminal.size), *_choices(question, rule, terminal.size[0])])
    while True:
        line = terminal.read()
        answer = _understood(line)
        if answer is not None and answer.scope == "once":
            return answer
        if rule and answer is not None:
            return Approval(True, answer.scope, rule=rule)
        if rule and line.strip().lower() in _EDIT:
            rule = _chosen_rule(terminal, question) or rule
            terminal.print(_choices(question, rule, terminal.size[0]))
        else:
            terminal.print([[Span(f"  {keys}, or a few words for the model")]])


def _chosen_rule(terminal: LineTerminal, question: Question) -> str:
    """Return the rule that the user chooses or writes; "" if it is to stay as it was."""
    rules, width = question.rules, terminal.size[0]
    lines: list[Line] = [[], *hanging("The rule to save, the narrowest first:", width)]
    for number, rule in enumerate(rules, 1):
        lines += keyed(str(number), reveal_hidden(rule), width)
    told = "a number, or a rule such as bash(git push origin:*); empty: as it was"
    terminal.print([*lines, *hanging(told, width)])
    while text := printable(terminal.read(), multiline=False).strip():
        if text.isdecimal() and 1 <= int(text) <= len(rules):
            text = rules[int(text) - 1]
        why_not = question.objection(text)
        if not why_not:
            break
        terminal.print(hanging(reveal_hidden(why_not), width, "yellow"))
    return text


def _lines(question: Question, width: int, height: int) -> list[Line]:
    body = question.action_rows(width)
    lines: list[Line] = [[], *hanging(question.title, width, "bold", ""), [], *body]
    if len(body) > height - 12:
        lines += hanging(f"{len(body)} rows: scroll up for the first", width, "yellow")
    return [*lines, *question.words_rows(width), *question.fact_rows(width), []]


def _choices(question: Question, rule: str, width: int) -> list[Line]:
    lines = question.rule_rows(rule, width)
    for key in "ysae" if rule else "y":
        lines += keyed(key, MEANINGS[key], width)
    return [*lines, *keyed("n", "no; or type what the model should know or do instead", width)]


def _understood(line: str) -> Approval | None:
    text = printable(line, multiline=False).strip()
    if any(unicodedata.category(char) == "Cc" for char in line.rstrip("\r\n").replace("\t", " ")):
        # The line has a key such as an arrow in it, which was not meant as an answer.
        return None
    for word, (allowed, scope) in _ANSWERS.items():
        if text.lower() in (word, word[0]):
            return Approval(allowed, scope)
    if len(text) <= 2 or text.lower().rstrip(".!") in _ALMOST_YES | _EDIT:
        return None
    return Approval(False, reason=text)
