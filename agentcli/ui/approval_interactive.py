"""Ask a question on a terminal that can be drawn on: keys answer it, and then it disappears."""

from __future__ import annotations

import codecs
import time
from typing import Protocol, TypeVar

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agentcli.ui.approval_dialogue import ENTER
from agentcli.ui.approval_terminal import Closed, KeyMode, is_ready, read_some, stream
from agentcli.ui.live import LiveRegion
from agentcli.ui.style import Colors, Line, paint

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
_END = "c-d"
_SUSPEND = "c-z"


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
    region = LiveRegion(stream(fd), most_rows=_MOST_ROWS)

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
                for key in _interpret(keys.burst(), is_text=dialogue.is_typed_into):
                    if key.key == _SUSPEND:
                        region.draw([])
                        mode.suspend()
                    elif (answer := _take(dialogue, key)) is not None:
                        return answer
        finally:
            region.draw([])


def _take(dialogue: KeyDialogue[AnswerT], pressed: KeyPress) -> AnswerT | None:
    key = pressed.key.value if isinstance(pressed.key, Keys) else pressed.key
    if key == Keys.BracketedPaste:
        dialogue.paste(pressed.data)
        return None
    if key == _END and not dialogue.is_typed_into:
        raise Closed("the end of input was typed")
    return dialogue.press(key)


class _Keys:
    """Reads keys from a terminal."""

    def __init__(self, fd: int, timeout_s: float) -> None:
        self._fd = fd
        self._timeout_s = timeout_s
        self._new_until = time.monotonic() + _NEW_S
        self._pressed: list[KeyPress] = []
        self._parser = Vt100Parser(self._pressed.append)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def burst(self) -> list[KeyPress]:
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


def _interpret(pressed: list[KeyPress], *, is_text: bool) -> list[KeyPress]:
    """Ignore Alt with a letter and unknown sequences. Treat several letters at once as pasted, even
    if the terminal does not say so."""
    if len(pressed) > 1 and any(key.key == Keys.Escape for key in pressed):
        return [KeyPress(Keys.Ignore)]
    return _as_typed(pressed) if is_text else _as_answer(pressed)


def _as_typed(pressed: list[KeyPress]) -> list[KeyPress]:
    """Only a single Enter, after everything else, ends the text; otherwise each is a line break."""
    ends = [key for key in pressed if key.key in ENTER]
    if not ends or ends == pressed[-1:]:
        return pressed
    line_end = KeyPress(Keys.BracketedPaste, "\n")
    return [line_end if key in ends else key for key in pressed]


def _as_answer(pressed: list[KeyPress]) -> list[KeyPress]:
    """Take a letter with an Enter as that letter alone, as some people type Enter by habit."""
    typed = [key for key in pressed if _is_text(key) or key.key in ENTER]
    if len(typed) < 2 or all(key.key in _SCROLLING for key in typed):
        return pressed
    if len(typed) == 2 and _is_text(typed[0]) and typed[1].key in ENTER:
        return typed[:1]
    text = "".join("\n" if key.key in ENTER else key.data for key in typed)
    return [KeyPress(Keys.BracketedPaste, text.removesuffix("\n"))]


def _is_text(key: KeyPress) -> bool:
    return not isinstance(key.key, Keys) and key.key.isprintable()
