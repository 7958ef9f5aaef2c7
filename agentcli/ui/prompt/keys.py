"""The keys of the prompt: how they are read, and what they do. Editing keys are prompt_toolkit's
own, emacs or vi.
"""

from __future__ import annotations

import array
import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import (
    Condition,
    emacs_mode,
    has_focus,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agentcli.ui.prompt.control import Delivery
from agentcli.ui.prompt.input_line import InputLine

_AGAIN_S = 2.0
"""A second press within this time confirms the first."""
_TWICE_S = 0.6
_STOPPED_WITHIN_S = 0.2


def _stop() -> None:
    """Stop the programs of this job, as Ctrl-Z does, until the shell continues them. The main
    thread gets the signal, so this thread waits until it takes effect; otherwise it would redraw
    the prompt on the shell's screen."""
    os.kill(0, signal.SIGTSTP)
    time.sleep(_STOPPED_WITHIN_S)


def bindings(line: InputLine) -> KeyBindings:
    keys, act = KeyBindings(), _Acts(line)

    def open_editor(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    typing = has_focus(line.buffer)
    completing = Condition(lambda: bool(line.completions)) & typing
    working = Condition(lambda: line.control.is_working)
    writing = typing & ~vi_insert_mode
    for key, when, handler in (
        (("enter",), typing, act.enter),
        (("escape", "enter"), typing, new_line),
        (("c-j",), typing, new_line),
        (("tab",), typing, act.tab),
        (("down",), completing, lambda event: line.move_mark(1)),
        (("c-n",), completing, lambda event: line.move_mark(1)),
        (("up",), completing, lambda event: line.move_mark(-1)),
        (("c-p",), completing, lambda event: line.move_mark(-1)),
        (("up",), typing & ~completing, act.up),
        ((Keys.BracketedPaste,), typing, lambda event: line.paste(event.data)),
        (("c-v",), writing, lambda event: line.paste_image()),
        (("c-g",), typing, open_editor),
        (("c-x", "c-e"), typing & emacs_mode, open_editor),
        (("v",), typing & vi_navigation_mode, open_editor),
        (("escape",), writing & ~completing, act.escape),
        (("c-c",), typing, act.interrupt),
        (("c-d",), typing, act.end),
        (("s-tab",), typing, lambda event: line.control.next_approval_mode()),
        (("c-o",), typing, lambda event: line.control.unfold()),
        (("c-b",), working, lambda event: line.control.to_background()),
        (("c-l",), typing, lambda event: event.app.renderer.clear()),
        (("c-z",), typing, lambda event: run_in_terminal(_stop)),
    ):
        keys.add(*key, filter=when)(handler)
    close = partial(setattr, line, "completions", ())
    keys.add("escape", filter=completing, eager=True)(lambda event: close())
    return keys


class _Acts:
    """Keys whose effect depends on the state of the prompt."""

    def __init__(self, line: InputLine) -> None:
        self._line = line
        self._last_pressed: dict[str, float] = {}

    def enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if event.app.key_processor.input_queue:
            # More input came with Enter than anyone types: it is a paste from a terminal that does
            # not mark pastes.
            buffer.insert_text("\n")
        elif self._line.completions and not self._line.is_typed_out():
            self._line.accept()
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            self._submit("steer")

    def tab(self, event: KeyPressEvent) -> None:
        if self._line.completions:
            self._line.accept()
        elif self._line.control.is_working:
            self._submit("queue")

    def up(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not buffer.text and (taken := self._line.control.take_back()) is not None:
            buffer.insert_text(taken)
        else:
            buffer.auto_up(count=event.arg)

    def escape(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if self._line.control.is_working:
            self._line.control.interrupt()
        elif buffer.text:
            if self._again("escape on text", _TWICE_S):
                buffer.reset()
        elif self._again("escape", _TWICE_S):
            self._line.control.rewind()

    def interrupt(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        elif self._line.control.is_working:
            self._line.control.interrupt()
        elif self._again("c-c"):
            self._line.control.leave()
        else:
            self._line.hint = "Ctrl-C again leaves"

    def end(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.delete()
        elif not self._line.control.is_working or self._again("c-d"):
            self._line.control.leave()
        else:
            self._line.hint = "the agent works: Esc interrupts it, Ctrl-D again leaves"

    def _again(self, key: str, within_s: float = _AGAIN_S) -> bool:
        """Return whether the key was pressed again soon enough to confirm the first press."""
        now = time.monotonic()
        again = now - self._last_pressed.get(key, -within_s) < within_s
        self._last_pressed[key] = -within_s if again else now
        return again

    def _submit(self, delivery: Delivery) -> None:
        self._line.control.submit(self._line.submission(delivery))


class Keyboard(Vt100Input):
    """Input from stdin. While a terminal is not in raw mode, it turns Enter into a newline, which
    the prompt would read as Ctrl-J; such newlines are turned back into Enter."""

    def __init__(self) -> None:
        super().__init__(sys.stdin)
        self._reader = _Reader(sys.stdin.fileno(), encoding=sys.stdin.encoding)
        self.stdin_reader = self._reader

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            self._reader.count_early()
            yield

    @contextmanager
    def cooked_mode(self) -> Iterator[None]:
        with super().cooked_mode():
            yield
        self._reader.count_early()


class _Reader(PosixStdinReader):
    _early = 0
    """Number of unread bytes that were typed before raw mode."""

    def count_early(self) -> None:
        size = array.array("i", [0])
        fcntl.ioctl(self.stdin_fd, termios.FIONREAD, size)
        self._early = size[0]

    def read(self, count: int = 1024) -> str:
        text = super().read(count)
        if self._early > 0:
            self._early -= len(text.encode("utf-8", "surrogateescape"))
            text = text.replace("\n", "\r")
        return text
