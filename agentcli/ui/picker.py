"""Choose one of several items, such as sessions or messages, on a full screen: a list that typing
filters, a preview of the marked item, and a line for the next message.

It uses stderr and stdin only, and restores the screen once the choice is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from prompt_toolkit import Application
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    HSplit,
    Layout,
    VSplit,
    Window,
)

from agentcli.errors import TurnInterrupted
from agentcli.ui.choices import Choice, Preview, Selection, ValueT, choice_row, preview_lines
from agentcli.ui.prompt.output import PromptOutput
from agentcli.ui.screen import Screen, terminal_size
from agentcli.ui.text import Line, Span, pasted_text, plain

_NUMBERED_ROWS = 20
_MOST_MESSAGE_ROWS = 6
_MOST_PREVIEW_ROWS = 10
_FEWEST_ROWS_FOR_PREVIEW = 14
_ESCAPE_S = 0.05
"""How long to wait after Esc: sequences of other keys begin with it too, and arrive at once."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the picker asks. `alone` says what Enter does without a next message, such as "resumes
    it", and `sending` what it does with one. If `sending` is empty, no message is asked for."""

    text: str
    alone: str
    sending: str = ""


@dataclass(frozen=True, slots=True)
class Picked(Generic[ValueT]):
    """The choice, and the user's next message if they typed one. If none was asked for, it is the
    choice's draft."""

    value: ValueT
    message: str = ""


def pick(
    question: Question,
    choices: Sequence[Choice[ValueT]],
    preview: Callable[[ValueT], Preview] = lambda value: Preview(""),
) -> Picked[ValueT] | None:
    """Let the user at the terminal choose; None if they don't. `preview` is called when a choice is
    first marked. For the main thread, with nobody else reading the terminal.

    Raises TurnInterrupted on ^C, OSError if the terminal is gone.
    """
    if not Screen(sys.stderr).rich:
        return _pick_by_number(question, choices)
    picked = _Picker(question, choices, preview).run()
    if isinstance(picked, TurnInterrupted):
        raise picked
    return picked


def _pick_by_number(question: Question, choices: Sequence[Choice[ValueT]]) -> Picked[ValueT] | None:
    """Let the user choose by number, on a terminal that can't be drawn on; an empty line chooses
    nothing."""
    shown = choices[:_NUMBERED_ROWS]
    columns, _ = terminal_size(sys.stderr)
    for number, choice in enumerate(shown, 1):
        print(f"{number:>3} {plain(choice_row(choice, columns - 5))}", file=sys.stderr)
    while True:
        answer = _line(f"{question.text}1-{len(shown)}: ")
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            break
    chosen = shown[int(answer) - 1]
    if not question.sending:
        return Picked(chosen.value, chosen.draft)
    message = _line("next message: ")
    return None if chosen.needs_message and not message else Picked(chosen.value, message)


def _line(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


class _Picker(Generic[ValueT]):
    """The full-screen picker. Keys go to the list first, and to the line for the next message once
    an item is chosen."""

    def __init__(
        self,
        question: Question,
        choices: Sequence[Choice[ValueT]],
        preview: Callable[[ValueT], Preview],
    ) -> None:
        self._question = question
        self._selection = Selection(choices)
        self._preview = preview
        self._previews: dict[int, Preview] = {}
        """Previews by the choice's id(), so that each is made only once."""
        self._output = PromptOutput()
        self._query = Buffer(
            multiline=False,
            on_text_changed=lambda buffer: self._selection.search(buffer.text),
        )
        self._message = Buffer(multiline=True)
        self._is_writing = Condition(lambda: get_app().layout.has_focus(self._message))

    def run(self) -> Picked[ValueT] | TurnInterrupted | None:
        application: Application[Picked[ValueT] | TurnInterrupted | None] = Application(
            layout=Layout(self._body(), focused_element=self._query),
            key_bindings=self._bindings(),
            full_screen=True,
            erase_when_done=True,
            input=create_input(sys.stdin),
            output=self._output,
        )
        application.ttimeoutlen = application.timeoutlen = _ESCAPE_S
        return application.run()

    def _body(self) -> HSplit:
        preview = Window(self._output.showing(self._previewed), height=self._preview_rows)
        message = self._labelled("next message: ", self._message, _MOST_MESSAGE_ROWS)
        has_preview = Condition(lambda: self._preview_rows() > 0)
        return HSplit(
            [
                self._labelled(self._question.text, self._query, 1),
                Window(self._output.showing(self._rows)),
                ConditionalContainer(HSplit([self._rule(), preview]), has_preview),
                ConditionalContainer(HSplit([self._rule(), message]), self._is_writing),
                Window(self._output.showing(self._footer), height=1),
            ]
        )

    def _labelled(self, label: str, buffer: Buffer, rows: int) -> VSplit:
        shown = self._output.showing(lambda width: [[Span(label, "bold")]])
        line = Window(
            BufferControl(buffer),
            height=Dimension(min=1, max=rows),
            wrap_lines=rows > 1,
            dont_extend_height=True,
        )
        return VSplit([Window(shown, width=len(label), dont_extend_height=True), line])

    def _rule(self) -> Window:
        return Window(self._output.showing(lambda width: [[Span("─" * width, "dim")]]), height=1)

    def _preview_rows(self) -> int:
        rows = self._output.get_size().rows
        return min(_MOST_PREVIEW_ROWS, rows // 3) if rows >= _FEWEST_ROWS_FOR_PREVIEW else 0

    def _rows(self, width: int) -> list[Line]:
        around = 2 + (self._preview_rows() + 1 if self._preview_rows() else 0)
        if self._is_writing():
            around += 1 + min(self._message.document.line_count, _MOST_MESSAGE_ROWS)
        return self._selection.lines(width, max(1, self._output.get_size().rows - around))

    def _previewed(self, width: int) -> list[Line]:
        marked = self._selection.marked
        if marked is None:
            return []
        if id(marked) not in self._previews:
            self._previews[id(marked)] = self._preview(marked.value)
        return preview_lines(self._previews[id(marked)], width, self._preview_rows())

    def _footer(self, width: int) -> list[Line]:
        if self._is_writing():
            marked = self._selection.marked
            enter = f"Enter {self._question.sending}"
            if not self._message.text.strip():
                needed = marked is not None and marked.needs_message
                enter = "say what comes next" if needed else f"Enter {self._question.alone}"
            keys = f"{enter} · Alt-Enter new line · Esc back"
        else:
            enter = "chooses" if self._question.sending else self._question.alone
            position = self._selection.position()
            keys = f"{position} · type to search · Enter {enter} · Esc leaves"
        return [[Span(keys, "dim")]]

    def _choose(self, event: KeyPressEvent) -> None:
        marked = self._selection.marked
        if marked is None:
            return
        if not self._question.sending:
            event.app.exit(result=Picked(marked.value, marked.draft))
            return
        self._message.document = Document(marked.draft)
        event.app.layout.focus(self._message)

    def _finish(self, event: KeyPressEvent) -> None:
        marked = self._selection.marked
        text = self._message.text.strip()
        if marked is not None and (text or not marked.needs_message):
            event.app.exit(result=Picked(marked.value, text))

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        writing, listing = self._is_writing, ~self._is_writing

        def moves(by: Callable[[], int]) -> Callable[[KeyPressEvent], None]:
            return lambda event: self._selection.move(by())

        def leaves(result: TurnInterrupted | None) -> Callable[[KeyPressEvent], None]:
            return lambda event: event.app.exit(result=result)

        def new_line(event: KeyPressEvent) -> None:
            self._message.insert_text("\n")

        # Several keys of one row do the same; a key may be a sequence.
        for keys, when, act in (
            (("up", "c-p", "c-k"), listing, moves(lambda: -1)),
            (("down", "c-n", "c-j"), listing, moves(lambda: 1)),
            (("pageup",), listing, moves(lambda: -self._output.get_size().rows // 2)),
            (("pagedown",), listing, moves(lambda: self._output.get_size().rows // 2)),
            (("enter",), listing, self._choose),
            (("enter",), writing, self._finish),
            (("escape", "c-d"), listing, leaves(None)),
            (("escape",), writing, lambda event: event.app.layout.focus(self._query)),
            (("escape enter", "c-j"), writing, new_line),
            (("c-c", "<sigint>"), True, leaves(TurnInterrupted("interrupted", 130))),
            ((Keys.BracketedPaste.value,), True, self._paste),
        ):
            for key in keys:
                bindings.add(*key.split(), filter=when)(act)
        return bindings

    def _paste(self, event: KeyPressEvent) -> None:
        text = pasted_text(event.data, multiline=self._is_writing())
        event.current_buffer.insert_text(text)
