"""Questions answered by keys, about an action or the model's: what they look like, what keys do.

This module neither reads nor draws: a terminal, or a window of another program, passes in keys by
their names in prompt_toolkit (`y`, `up`, `c-m`, `escape`) and shows the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentcli.events.progress import Approval, Scope
from agentcli.ui.approval import Question, hanging, keyed, quoted
from agentcli.ui.summary import count
from agentcli.ui.text import (
    Line,
    Span,
    Style,
    clip,
    exact_lines,
    exact_rows,
    pasted_text,
    reveal_hidden,
)

_MOST_ROWS = 5


class Draft:
    """Text with a cursor, while it is being typed."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.at = len(text)

    def insert(self, text: str) -> None:
        self._keep(self.text[: self.at] + text, self.text[self.at :])

    def press(self, key: str) -> None:
        """Handle a key that types, moves or deletes."""
        before, after = self.text[: self.at], self.text[self.at :]
        match key:
            case "left" | "c-b":
                self.at = max(self.at - 1, 0)
            case "right" | "c-f":
                self.at = min(self.at + 1, len(self.text))
            case "home" | "c-a":
                self.at = 0
            case "end" | "c-e":
                self.at = len(self.text)
            case "c-h":
                self._keep(before[:-1], after)
            case "delete":
                self._keep(before, after[1:])
            case "c-w":
                self._keep(before.rstrip(" ")[: before.rstrip(" ").rfind(" ") + 1], after)
            case "c-u":
                self._keep("", after)
            case "c-k":
                self._keep(before, "")
            case _ if len(key) == 1 and (key.isprintable() or key == "\t"):
                self.insert(key)

    def lines(self, width: int) -> list[Line]:
        """Return the typed text, or its end if it is long, with the cursor in the last line."""
        before = exact_lines(self.text[: self.at])
        lines = list(exact_rows(before[-_MOST_ROWS:], width - 1))
        if len(before) > _MOST_ROWS or len(lines) > _MOST_ROWS:
            cut = f"  … the end of {count(len(before), 'line')}"
            lines = [[Span(cut, "dim")], *lines[-_MOST_ROWS:]]
        rest = reveal_hidden(self.text[self.at :].replace("\n", " "))
        lines[-1] = [*lines[-1], Span(rest[:1] or " ", "reverse"), Span(rest[1:])]
        return lines

    def _keep(self, before: str, after: str) -> None:
        self.text, self.at = before + after, len(before)


ENTER = frozenset(("c-m", "c-j"))
MOVES = {"up": -1, "c-p": -1, "down": 1, "c-n": 1}
DIGITS = "123456789"
_LASTING: dict[str, Scope] = {"s": "session", "a": "always"}
MEANINGS = {
    "y": "yes, once",
    "s": "yes, and what the rule allows until this session ends",
    "a": "yes, and what the rule allows in this workspace from now on",
    "e": "change the rule first",
    "n": "no (or Esc)",
    "t": "no; type what the model should know or do instead",
}
_FEWEST_ROWS = 3
"""Fewest rows shown of an action that is longer than the screen."""
_View = Literal["answers", "words", "rules", "rule"]


def moved(marked: int | None, by: int, last: int) -> int:
    """Return the row to mark after a move from `marked`, if any is, of the rows up to `last`."""
    if marked is None:
        return 0 if by > 0 else last
    return min(max(marked + by, 0), last)


class ApprovalDialogue:
    """One question until it is answered. `rule` is the rule that a lasting answer would save."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.rule = question.offered
        self._view: _View = "answers"
        self._keys = [key for key in MEANINGS if question.rules or key not in "sae"]
        self._marked: int | None = None
        """Nothing is marked at first: an Enter pressed as the question appears must not say yes."""
        self._marked_rule = 0
        self._draft = Draft()
        self._hint = ""
        self._top = 0
        self._page = 1
        self._most = 0
        self._has_seen_end = False
        """Whether the last row of the action has been on the screen: what is allowed must have been
        there to be read."""
        self._kept: tuple[int, list[Line]] = (-1, [])

    @property
    def is_typed_into(self) -> bool:
        """Whether letters are now text instead of answers."""
        return self._view in ("words", "rule")

    def press(self, key: str) -> Approval | None:
        """Handle a key, given as its name or a character, and return the answer if it gave one."""
        self._hint = ""
        if self.is_typed_into:
            return self._in_text(key)
        if self._view == "answers":
            return self._in_answers(key)
        self._in_rules(key)
        return None

    def paste(self, text: str) -> None:
        """Insert pasted text as the words for the model, or as the rule. It is no answer until
        Enter is pressed."""
        text = pasted_text(text)
        if not self.is_typed_into:
            self._go("words")
            self._hint = "that was text: nothing is answered yet"
        self._draft.insert(text if self._view == "words" else " ".join(text.split()))

    # --- what keys do ---------------------------------------------------------------------------

    def _go(self, view: _View, text: str = "") -> None:
        self._view, self._draft = view, Draft(text)

    def _in_answers(self, key: str) -> Approval | None:
        if self._scrolls(key):
            return None
        if key in MOVES:
            self._marked = moved(self._marked, MOVES[key], len(self._keys) - 1)
        elif key in ENTER and self._marked is not None:
            return self._answer(self._keys[self._marked])
        elif key == "escape":
            return Approval(False)
        elif key.lower() in self._keys:
            return self._answer(key.lower())
        else:
            self._hint = f"{', '.join(self._keys)}: one key; or arrows and Enter"
        return None

    def _answer(self, key: str) -> Approval | None:
        if (key == "y" or key in _LASTING) and not self._has_seen_end:
            self._hint = "not allowed yet: its last row has not been on the screen"
        elif key == "t":
            self._go("words")
        elif key == "e":
            rules = self.question.rules
            self._marked_rule = rules.index(self.rule) if self.rule in rules else len(rules)
            self._go("rules")
        elif key in _LASTING:
            return Approval(True, _LASTING[key], rule=self.rule)
        else:
            return Approval(key == "y")
        return None

    def _in_text(self, key: str) -> Approval | None:
        text = self._draft.text.strip()
        if key == "escape":
            self._go("answers" if self._view == "words" else "rules")
        elif key not in ENTER:
            self._draft.press(key)
        elif self._view == "words":
            if text:
                return Approval(False, reason=text)
            self._hint = "type a few words, or Esc to go back"
        else:
            self._hint = self.question.objection(text)
            if not self._hint:
                self.rule = text
                self._go("answers")
        return None

    def _in_rules(self, key: str) -> None:
        rules = self.question.rules
        by = {**MOVES, "j": 1, "k": -1}.get(key)
        if by:
            self._marked_rule = moved(self._marked_rule, by, len(rules))
        elif key == "escape":
            self._go("answers")
        elif key == "e":
            self._go("rule", (*rules, self.rule)[self._marked_rule])
        elif key in ENTER or key in DIGITS[: len(rules) + 1]:
            self._marked_rule = self._marked_rule if key in ENTER else int(key) - 1
            if self._marked_rule == len(rules):
                self._go("rule", self.rule)
            else:
                self.rule = rules[self._marked_rule]
                self._go("answers")

    def _scrolls(self, key: str) -> bool:
        steps = {"j": 1, "k": -1, "pagedown": self._page, "pageup": -self._page}
        steps |= {"home": -self._most, "end": self._most}
        if key not in steps:
            return False
        self._top = min(max(self._top + steps[key], 0), self._most)
        return True

    # --- what is shown --------------------------------------------------------------------------

    def fits(self, width: int, height: int) -> bool:
        """Return whether everything fits, not counting an action that can be scrolled."""
        head, action, below = self._rows(width)
        fewest = _FEWEST_ROWS + 1 + len(_unseen(width))
        return len(head) - 1 + min(len(action), fewest) + len(below) <= height

    def lines(self, width: int, height: int) -> list[Line]:
        """Return lines for at most `width` columns and `height` rows. Of an action that is longer,
        these hold the rows scrolled to, a count, and what must be done before it can be allowed."""
        head, action, below = self._rows(width)
        room = height - len(head) - len(below)
        if len(action) > room:
            head, room = head[:-1], room + 1
        self._most, self._page = 0, 1
        if len(action) > room:
            notes = [] if self._has_seen_end else _unseen(width)
            self._page = max(room - 1 - len(notes), 1)
            self._most = max(len(action) - self._page, 0)
            self._top = min(self._top, self._most)
            end = min(self._top + self._page, len(action))
            rows = f"  rows {self._top + 1} to {end} of {len(action)} · PgUp PgDn, j k scroll"
            below = [[Span(rows, "yellow")], *notes, *below]
            self._has_seen_end |= end == len(action) and len(below) < height
            action = action[self._top : end]
        else:
            self._has_seen_end |= len(below) < height
        return [clip(line, width) for line in [*head, *action, *below][-height:]]

    def folded(self, answer: Approval, width: int) -> Line:
        """Return the question and its answer in one line."""
        verb = "allowed" if answer.allowed else "not allowed"
        rule = f", {answer.scope} {reveal_hidden(answer.rule)}" if answer.rule else ""
        reason = f" · {reveal_hidden(answer.reason)}" if answer.reason else ""
        style: Style = "green" if answer.allowed else "red"
        line = [Span(f"{verb}{rule}", style), Span(f": {self.question.what}{reason}")]
        return clip(line, width)

    def _rows(self, width: int) -> tuple[list[Line], list[Line], list[Line]]:
        """Return the rows above the action, its own, and those below it."""
        question = self.question
        if self._kept[0] != width:
            self._kept = (width, [*question.action_rows(width), *question.words_rows(width)])
        below = [*question.fact_rows(width), *self._choices(width), *self._notes(width)]
        return [[], *hanging(question.title, width, "bold", ""), []], self._kept[1], below

    def _choices(self, width: int) -> list[Line]:
        match self._view:
            case "words":
                return [[], *hanging("What should the model know, or do instead?", width)]
            case "rules":
                return self._rule_rows(width)
            case "rule":
                return [[], *hanging("The rule, such as bash(git push origin:*)", width)]
        lines: list[Line] = [[]]
        lines += self.question.rule_rows(self.rule, width)
        for at, key in enumerate(self._keys):
            lines += keyed(key, MEANINGS[key], width, marked=at == self._marked)
        return lines

    def _rule_rows(self, width: int) -> list[Line]:
        lines: list[Line] = [[], *hanging("The rule to save, the narrowest first:", width)]
        for at, rule in enumerate((*self.question.rules, "another one")):
            lines += keyed(str(at + 1), reveal_hidden(rule), width, marked=at == self._marked_rule)
        hint = "a number or Enter takes it, e changes it, Esc goes back"
        return [*lines, *hanging(hint, width, "dim")]

    def _notes(self, width: int) -> list[Line]:
        hint = hanging(reveal_hidden(self._hint), width, "yellow") if self._hint else []
        if not self.is_typed_into:
            return hint
        keys = "Enter sends it as a no" if self._view == "words" else "Enter takes it"
        return [*hint, *hanging(f"{keys}, Esc goes back", width, "dim"), *self._draft.lines(width)]


def _unseen(width: int) -> list[Line]:
    """Return the note shown until the end of a long action has been on the screen."""
    return hanging("go to the last row (PgDn, End) before you say yes", width, "yellow")


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer; `text` is None if they gave none."""

    text: str | None


class AnswerDialogue:
    """One question until it is answered. Without options, keys are text from the start."""

    def __init__(self, question: str, options: Sequence[str]) -> None:
        self.question = question
        self.options = tuple(options)[: len(DIGITS)]
        self.is_typed_into = not self.options
        self._marked: int | None = None
        """Nothing is marked at first, so that an Enter pressed as the question appears chooses
        nothing."""
        self._draft = Draft()
        self._hint = ""

    def press(self, key: str) -> Answer | None:
        """Handle a key and return the answer, if the key gave one."""
        self._hint = ""
        return self._in_words(key) if self.is_typed_into else self._in_options(key)

    def paste(self, text: str) -> None:
        """Insert pasted text; it is no answer until Enter is pressed."""
        self.is_typed_into = True
        self._draft.insert(pasted_text(text))

    def _in_options(self, key: str) -> Answer | None:
        if key in MOVES:
            self._marked = moved(self._marked, MOVES[key], len(self.options))
        elif key in ENTER and self._marked is not None:
            return self._take(self._marked)
        elif key in DIGITS[: len(self.options)]:
            return self._take(int(key) - 1)
        elif key.lower() == "t":
            self.is_typed_into = True
        elif key == "escape":
            return Answer(None)
        else:
            self._hint = "a number, t, or arrows and Enter; Esc: no answer"
        return None

    def _take(self, number: int) -> Answer | None:
        if number < len(self.options):
            return Answer(self.options[number])
        self.is_typed_into = True
        return None

    def _in_words(self, key: str) -> Answer | None:
        if key in ENTER:
            if words := self._draft.text.strip():
                return Answer(words)
            self._hint = "type an answer; Esc: none"
        elif key == "escape":
            if not self.options:
                return Answer(None)
            self.is_typed_into, self._draft = False, Draft()
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
        title: Line = [Span("The model asks:", "bold")]
        lines: list[Line] = [[], title, [], *quoted(self.question, width), []]
        for number, option in enumerate(self.options):
            marked = number == self._marked
            lines += keyed(DIGITS[number], reveal_hidden(option), width, marked=marked)
        return lines

    def folded(self, answer: Answer, width: int) -> Line:
        """Return the question and its answer in one line."""
        style: Style = "yellow" if answer.text is None else "green"
        end = "not answered" if answer.text is None else f"answered: {reveal_hidden(answer.text)}"
        question = reveal_hidden(" ".join(self.question.split()))
        return clip([Span(question), Span(f" {end}", style)], width)

    def _rows(self, width: int) -> list[Line]:
        lines = self.question_rows(width)
        if self.options:
            marked = self._marked == len(self.options)
            lines += keyed("t", "something else: type it", width, marked=marked)
        lines += hanging(self._hint, width, "yellow") if self._hint else []
        if not self.is_typed_into:
            return lines
        back = "Esc goes back" if self.options else "Esc: no answer"
        keys = hanging(f"Enter sends it, {back}", width, "dim")
        return [*lines, *keys, *self._draft.lines(width)]
