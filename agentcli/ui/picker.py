"""Choosing one of several sessions: a short list that is filtered by typing.

Everything is on stderr and stdin; what was drawn vanishes when the choice is made.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from prompt_toolkit import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output

from agentcli.errors import TurnInterrupted
from agentcli.ui.live import terminal_size
from agentcli.ui.sanitize import printable
from agentcli.ui.screen import Screen
from agentcli.ui.style import Colors, Line, Span, Style, cells, clip, paint, plain
from agentcli.ui.summary import count, money

ROWS = 10
_LONGEST_GAP = 3
_PROMPT = "resume which session? "
_KEYS = "↑ ↓ move · Enter resumes · Esc leaves"
_STYLES: dict[str, Style] = {"failed": "red", "finished": "green"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One session as it is offered: age and state in words, `cost_usd` None if unknown. `folder`
    is where it worked, `pid` the process that has it open now; both are left out if empty."""

    session_id: str
    age: str
    state: str
    steps: int
    cost_usd: float | None
    title: str
    name: str = ""
    folder: str = ""
    pid: int | None = None


class Selection:
    """What is typed, what fits it, and which row is marked."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = choices
        self.fitting = list(choices)
        self.query = ""
        self.at = 0

    @property
    def marked(self) -> Choice | None:
        return self.fitting[self.at] if self.fitting else None

    def search(self, query: str) -> None:
        """Choices that fit `query`, those that hold it literally first, else in their order."""
        self.query = query
        words = query.casefold().split()
        texts = {id(choice): _searched(choice) for choice in self._choices}
        loose = [re.compile(f".{{0,{_LONGEST_GAP}}}?".join(map(re.escape, w))) for w in words]
        fitting = [c for c in self._choices if all(p.search(texts[id(c)]) for p in loose)]
        fitting.sort(key=lambda choice: not all(word in texts[id(choice)] for word in words))
        self.fitting = fitting
        self.at = 0

    def move(self, by: int) -> None:
        self.at = max(0, min(self.at + by, len(self.fitting) - 1))

    def lines(self, width: int, rows: int = ROWS) -> list[Line]:
        """The rows of the list around the marked one, none wider than `width`, and a footer."""
        first = max(0, min(self.at - rows // 2, len(self.fitting) - rows))
        shown = self.fitting[first : first + rows]
        lines: list[Line] = []
        for number, line in enumerate(table(shown, width - 2), first):
            marked = number == self.at
            mark = Span("> " if marked else "  ", "bold")
            text: Line = [Span(plain(line), "bold")] if marked else line
            lines.append([mark, *text])
        footer = _KEYS
        if len(shown) < len(self.fitting):
            footer = f"{first + 1}-{first + len(shown)} of {len(self.fitting)} · {footer}"
        elif not shown:
            footer = f"none fits · {footer}"
        return [*lines, clip([Span(footer, "dim")], width)]


def table(choices: Sequence[Choice], width: int) -> list[Line]:
    """One line for each choice, in columns, none wider than `width`."""
    facts = [
        (
            choice.age,
            f"in use by {choice.pid}" if choice.pid else choice.state,
            count(choice.steps, "step"),
            "$?" if choice.cost_usd is None else money(choice.cost_usd),
        )
        for choice in choices
    ]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    lines: list[Line] = []
    for choice, (age, state, steps, cost) in zip(choices, facts, strict=True):
        style: Style = "yellow" if choice.pid else _STYLES.get(choice.state, "")
        line = [
            Span(f"{age:>{widths[0]}}  ", "dim"),
            Span(f"{state:<{widths[1]}}  ", style),
            Span(f"{steps:>{widths[2]}}  {cost:>{widths[3]}}  ", "dim"),
        ]
        lines.append([*line, *_title(choice, width - cells(plain(line)))])
    return lines


def pick(choices: Sequence[Choice]) -> Choice | None:
    """Let the person at the terminal choose; None when they don't.

    Raises TurnInterrupted on ^C, OSError when the terminal is gone.
    """
    screen = Screen(sys.stderr, live=False)
    if not screen.rich:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        return _pick_by_number(choices, sys.stderr, sys.stdin, columns)
    chosen = _application(Selection(choices), screen.colors).run()
    if chosen is None or isinstance(chosen, Choice):
        return chosen
    raise chosen


def _pick_by_number(
    choices: Sequence[Choice], out: TextIO, typed: TextIO, columns: int
) -> Choice | None:
    """For terminals that can't be drawn on; an empty line chooses nothing."""
    shown = choices[:ROWS]
    for number, line in enumerate(table(shown, columns - 5), 1):
        print(f"{number:>3} {plain(line)}", file=out)
    while True:
        out.write(f"{_PROMPT}1-{len(shown)}: ")
        out.flush()
        answer = typed.readline().strip()
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1]


def _application(
    selection: Selection, colors: Colors
) -> Application[Choice | TurnInterrupted | None]:

    output = _output()

    def prompt() -> ANSI:
        return ANSI(paint([Span(_PROMPT, "bold"), Span(selection.query)], colors))

    def body() -> ANSI:
        size = output.get_size()
        lines = selection.lines(size.columns - 1, max(1, min(ROWS, size.rows - 3)))
        return ANSI("\n".join(paint(line, colors) for line in lines))

    def cursor() -> Point:
        return Point(x=len(_PROMPT) + len(selection.query), y=0)

    typed = FormattedTextControl(prompt, focusable=True, get_cursor_position=cursor)
    rows = HSplit(
        [
            Window(typed, height=1),
            Window(FormattedTextControl(body), dont_extend_height=True),
        ]
    )
    application: Application[Choice | TurnInterrupted | None] = Application(
        layout=Layout(rows),
        key_bindings=_bindings(selection),
        erase_when_done=True,
        input=create_input(sys.stdin),
        output=output,
    )
    # Esc is also how arrow keys begin; what follows it comes at once.
    application.ttimeoutlen = 0.05
    return application


def _output() -> Output:
    """stderr, without asking the terminal where its cursor is: some never answer."""

    def size() -> Size:
        columns, rows = terminal_size(sys.stderr)
        return Size(rows, columns)

    return Vt100_Output(sys.stderr, size, term=os.environ.get("TERM"), enable_cpr=False)


def _bindings(selection: Selection) -> KeyBindings:

    bindings = KeyBindings()

    def moves(by: int, *keys: str) -> None:
        for key in keys:
            bindings.add(key)(lambda event: selection.move(by))

    moves(-1, "up", "c-p", "c-k")
    moves(1, "down", "c-n", "c-j")
    moves(-ROWS, "pageup")
    moves(ROWS, "pagedown")
    bindings.add("backspace")(lambda event: selection.search(selection.query[:-1]))
    bindings.add("c-u")(lambda event: selection.search(""))
    bindings.add("c-w")(lambda event: selection.search(selection.query.rpartition(" ")[0]))
    bindings.add("escape", eager=True)(lambda event: event.app.exit(result=None))
    bindings.add("c-d")(lambda event: event.app.exit(result=None))

    @bindings.add("enter")
    def _take(event: KeyPressEvent) -> None:
        if selection.marked is not None:
            event.app.exit(result=selection.marked)

    @bindings.add("c-c")
    @bindings.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        event.app.exit(result=TurnInterrupted("interrupted", 130))

    @bindings.add(Keys.Any)
    @bindings.add(Keys.BracketedPaste)
    def _type(event: KeyPressEvent) -> None:
        if event.data.isprintable() or event.key_sequence[0].key is Keys.BracketedPaste:
            selection.search(selection.query + printable(event.data, multiline=False))

    return bindings


def _searched(choice: Choice) -> str:
    return f"{choice.name}\n{choice.title}\n{choice.session_id}\n{choice.folder}".casefold()


def _title(choice: Choice, room: int) -> Line:
    title = printable(choice.title, multiline=False)
    name = printable(choice.name, multiline=False)
    text: Line = [Span(f"{name}: ", "bold"), Span(title)] if name else [Span(title)]
    if not choice.folder:
        return clip(text, max(room, 1))
    folder = _end_of(printable(choice.folder, multiline=False), max(room // 2 - 2, 1))
    text = clip(text, max(room - cells(folder) - 2, 1))
    return [*text, Span(f"  {folder}", "dim")]


def _end_of(path: str, width: int) -> str:
    """The last part of a path, which tells more than its first."""
    if cells(path) <= width:
        return path
    while path and cells(path) > width - 1:
        path = path[1:]
    return f"…{path}"
