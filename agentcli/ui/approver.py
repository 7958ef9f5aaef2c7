"""Ask the user at the terminal whether an action may run, and what the model wants to know.

On a terminal that can be drawn on, keys answer and the question disappears; on any other it is
printed whole, and lines answer it.
"""

from __future__ import annotations

import codecs
import os
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentcli.errors import TurnInterrupted
from agentcli.events import Action
from agentcli.events.base import Risk
from agentcli.events.progress import Approval, Scope
from agentcli.ui.approval import Question, RuleOffers, hanging, keyed, question_about
from agentcli.ui.dialogues import DIGITS, ENTER, MEANINGS, Answer, AnswerDialogue, ApprovalDialogue
from agentcli.ui.screen import LiveRegion, terminal_colors, terminal_size
from agentcli.ui.text import Colors, Line, Span, paint, printable, reveal_hidden
from agentcli.ui.tty import (
    ENDED,
    TTY,
    Closed,
    KeyMode,
    TTYStream,
    is_ready,
    line_mode,
    open_patiently,
    read_line,
    read_some,
    write,
)

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
    rule, (width, height) = question.offered, terminal.size
    keys = "y, s, a, e, n" if rule else "y, n"
    body = question.action_rows(width)
    lines: list[Line] = [[], *hanging(question.title, width, "bold", ""), [], *body]
    if len(body) > height - 12:
        lines += hanging(f"{len(body)} rows: scroll up for the first", width, "yellow")
    lines += [*question.words_rows(width), *question.fact_rows(width), []]
    terminal.print([*lines, *_choices(question, rule, width)])
    while True:
        line = terminal.read()
        answer = _understood(line)
        if answer is not None and answer.scope == "once":
            return answer
        if rule and answer is not None:
            return Approval(True, answer.scope, rule=rule)
        if rule and line.strip().lower() in _EDIT:
            rule = _chosen_rule(terminal, question) or rule
            terminal.print(_choices(question, rule, width))
        else:
            terminal.print([[Span(f"  {keys}, or a few words for the model")]])


def _chosen_rule(terminal: LineTerminal, question: Question) -> str:
    """Return the rule that the user chooses or writes; "" if it is to stay as it was."""
    rules, width = question.rules, terminal.size[0]
    lines: list[Line] = [[], *hanging("The rule to save, the narrowest first:", width)]
    for number, rule in enumerate(rules, 1):
        lines += keyed(str(number), reveal_hidden(rule), width)
    hint = "a number, or a rule such as bash(git push origin:*); empty: as it was"
    terminal.print([*lines, *hanging(hint, width)])
    while text := printable(terminal.read(), multiline=False).strip():
        if text.isdecimal() and 1 <= int(text) <= len(rules):
            text = rules[int(text) - 1]
        why_not = question.objection(text)
        if not why_not:
            break
        terminal.print(hanging(reveal_hidden(why_not), width, "yellow"))
    return text


def _choices(question: Question, rule: str, width: int) -> list[Line]:
    lines = question.rule_rows(rule, width)
    for key in "ysae" if rule else "y":
        lines += keyed(key, MEANINGS[key], width)
    return [*lines, *keyed("n", "no; or type what the model should know or do instead", width)]


def _understood(line: str) -> Approval | None:
    text = printable(line, multiline=False).strip()
    if any(unicodedata.category(char) == "Cc" for char in line.rstrip("\r\n").replace("\t", " ")):
        # The line has a key such as an arrow in it, so it is no answer.
        return None
    for word, (allowed, scope) in _ANSWERS.items():
        if text.lower() in (word, word[0]):
            return Approval(allowed, scope)
    if len(text) <= 2 or text.lower().rstrip(".!") in _ALMOST_YES | _EDIT:
        return None
    return Approval(False, reason=text)


def ask_for_answer(terminal: LineTerminal, dialogue: AnswerDialogue) -> Answer:
    """Ask line by line. The answer is a number or text; an empty line means no answer. Raises
    Closed."""
    width = terminal.size[0]
    hint = "a number, or an answer of yours" if dialogue.options else "your answer"
    terminal.print([*dialogue.question_rows(width), *hanging(f"{hint}; empty: none", width, "dim")])
    text = printable(terminal.read(), multiline=False).strip()
    if text in DIGITS[: len(dialogue.options)] and text:
        return Answer(dialogue.options[int(text) - 1])
    return Answer(text or None)


_TICK_S = 0.25
"""How often to check whether the window has changed its size."""
_BURST_S = 0.05
"""Keys that arrive faster than this are pasted, or one key that sends several characters."""
_NEW_S = 1.0
_TYPING_S = 0.25
"""While a question is newer than _NEW_S, letters that follow each other this fast are from someone
who was already typing and has not seen the question."""
_MOST_ROWS = 1_000
"""More than any window has: the whole action must be visible."""
_SCROLLING = frozenset("jk")
"""Keys that arrive several at once when held down; they only scroll and never answer."""
_PASTE = "<bracketed-paste>"
_Pressed = tuple[str, str]
"""A key, by its name in prompt_toolkit or as a character, and its text."""


AnswerT = TypeVar("AnswerT")


class KeyDialogue(Protocol[AnswerT]):
    """A question that is answered by keys, with any type of answer."""

    @property
    def is_typed_into(self) -> bool: ...
    def press(self, key: str) -> AnswerT | None: ...
    def paste(self, text: str) -> None: ...
    def fits(self, width: int, height: int) -> bool: ...
    def lines(self, width: int, height: int) -> list[Line]: ...
    def folded(self, answer: AnswerT, width: int) -> Line: ...


def ask_by_keys(
    fd: int, dialogue: KeyDialogue[AnswerT], colors: Colors, timeout_s: float
) -> AnswerT:
    """Ask the user at the terminal `fd` and return the answer. The question is always removed from
    the screen. Raises Closed."""
    region = LiveRegion(TTYStream(fd), most_rows=_MOST_ROWS)

    def draw() -> None:
        columns, height = region.size()
        region.most_rows = height
        lines = dialogue.lines(columns - 1, height - 1)
        region.draw([paint(line, colors) for line in lines])

    mode, keys = KeyMode(fd), _Keys(fd, timeout_s)
    with mode:
        try:
            while True:
                draw()
                for key, text in _interpret(keys.burst(), is_text=dialogue.is_typed_into):
                    if key == "c-z":
                        region.draw([])
                        mode.suspend()
                    elif key == _PASTE:
                        dialogue.paste(text)
                    elif key == "c-d" and not dialogue.is_typed_into:
                        raise Closed(ENDED)
                    elif (answer := dialogue.press(key)) is not None:
                        return answer
        finally:
            region.draw([])


class _Keys:
    """Reads keys from a terminal."""

    def __init__(self, fd: int, timeout_s: float) -> None:
        from prompt_toolkit.input.vt100_parser import Vt100Parser

        self._fd = fd
        self._timeout_s = timeout_s
        self._new_until = time.monotonic() + _NEW_S
        self._pressed: list[_Pressed] = []
        self._parser = Vt100Parser(
            lambda press: self._pressed.append((getattr(press.key, "value", press.key), press.data))
        )
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def burst(self) -> list[_Pressed]:
        """Return the keys that came together; none after a short time without any."""
        data = read_some(self._fd, self._timeout_s, _TICK_S)
        typing = time.monotonic() < self._new_until and data.isalpha()
        if typing or len(data) > 1 or data == b"\x1b":
            while is_ready(self._fd, _TYPING_S if typing else _BURST_S):
                data += read_some(self._fd, self._timeout_s)
        self._parser.feed(self._decoder.decode(data))
        self._parser.flush()
        pressed, self._pressed[:] = list(self._pressed), []
        return pressed


def _interpret(pressed: list[_Pressed], *, is_text: bool) -> list[_Pressed]:
    """Ignore Alt with a letter and unknown sequences. Treat several letters at once as pasted, even
    if the terminal does not say so."""
    if len(pressed) > 1 and any(key == "escape" for key, _ in pressed):
        return [("<ignore>", "")]
    return _as_typed(pressed) if is_text else _as_answer(pressed)


def _as_typed(pressed: list[_Pressed]) -> list[_Pressed]:
    """Only a single Enter, after everything else, ends the text; otherwise each is a line break."""
    ends = [at for at, (key, _) in enumerate(pressed) if key in ENTER]
    if ends in ([], [len(pressed) - 1]):
        return pressed
    return [(_PASTE, "\n") if at in ends else press for at, press in enumerate(pressed)]


def _as_answer(pressed: list[_Pressed]) -> list[_Pressed]:
    """Take a letter with an Enter as that letter alone, as some people type Enter by habit."""
    typed = [(k, data) for k, data in pressed if k in ENTER or (len(k) == 1 and k.isprintable())]
    keys = [key for key, _ in typed]
    if len(typed) < 2 or _SCROLLING.issuperset(keys):
        return pressed
    if len(typed) == 2 and keys[0] not in ENTER and keys[1] in ENTER:
        return typed[:1]
    text = "".join("\n" if key in ENTER else data for key, data in typed)
    return [(_PASTE, text.removesuffix("\n"))]


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
        question = question_about(action, reason, risk, self._offers, self._current_text)
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
        self,
        dialogue: KeyDialogue[AnswerT],
        ask_by_line: Callable[[LineTerminal], AnswerT],
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
        answer = ask_by_keys(fd, dialogue, self._colors, self._timeout_s)
        if self._folds:
            folded = dialogue.folded(answer, terminal_size(fd)[0] - 1)
            write(fd, paint(folded, self._colors) + "\n")
        return answer
