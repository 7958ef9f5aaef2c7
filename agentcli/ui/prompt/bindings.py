"""The key bindings of the prompt. Editing keys are prompt_toolkit's own, emacs or vi."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import (
    Condition,
    emacs_mode,
    has_focus,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agentcli.ui.prompt.control import Control, Delivery, Submission

_AGAIN_S = 2.0
"""A second press within this time confirms the first."""
_TWICE_S = 0.6


class Line(Protocol):
    """The part of the input line that its keys need."""

    buffer: Buffer
    control: Control

    def submission(self, delivery: Delivery) -> Submission:
        """Return what is typed, and clear the line."""

    def paste(self, text: str) -> None: ...
    def paste_image(self) -> None: ...
    def say(self, text: str) -> None:
        """Show `text` below the line until the next key."""

    def is_completing(self) -> bool: ...
    def choose(self, by: int) -> None: ...
    def accept(self) -> None:
        """Insert the marked completion."""

    def is_typed_out(self) -> bool:
        """Return whether the marked completion would add nothing."""

    def leave_completion(self) -> None: ...
    def stop(self) -> None:
        """Stop the program, as Ctrl-Z does, until the shell continues it."""


class Repeated:
    """Returns whether a key was pressed again soon enough to confirm the first press."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def __call__(self, key: str, within_s: float = _AGAIN_S) -> bool:
        now = self._clock()
        again = now - self._last.get(key, -within_s) < within_s
        self._last[key] = -within_s if again else now
        return again


def bindings(line: Line) -> KeyBindings:
    keys, act = KeyBindings(), _Acts(line)
    typing = has_focus(line.buffer)
    completing = Condition(line.is_completing) & typing
    working = Condition(lambda: line.control.is_working)
    writing = typing & ~vi_insert_mode
    for key, when, handler in (
        (("enter",), typing, act.enter),
        (("escape", "enter"), typing, act.new_line),
        (("c-j",), typing, act.new_line),
        (("tab",), typing, act.tab),
        (("down",), completing, lambda event: line.choose(1)),
        (("c-n",), completing, lambda event: line.choose(1)),
        (("up",), completing, lambda event: line.choose(-1)),
        (("c-p",), completing, lambda event: line.choose(-1)),
        (("up",), typing & ~completing, act.up),
        ((Keys.BracketedPaste,), typing, lambda event: line.paste(event.data)),
        (("c-v",), writing, lambda event: line.paste_image()),
        (("c-g",), typing, act.edit),
        (("c-x", "c-e"), typing & emacs_mode, act.edit),
        (("v",), typing & vi_navigation_mode, act.edit),
        (("escape",), writing & ~completing, act.escape),
        (("c-c",), typing, act.interrupt),
        (("c-d",), typing, act.end),
        (("s-tab",), typing, lambda event: line.control.next_approval_mode()),
        (("c-o",), typing, lambda event: line.control.unfold()),
        (("c-b",), working, lambda event: line.control.to_background()),
        (("c-l",), typing, lambda event: event.app.renderer.clear()),
        (("c-z",), typing, lambda event: line.stop()),
    ):
        keys.add(*key, filter=when)(handler)
    keys.add("escape", filter=completing, eager=True)(lambda event: line.leave_completion())
    return keys


class _Acts:
    """Keys whose effect depends on the state of the prompt."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._again = Repeated()

    def enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if event.app.key_processor.input_queue:
            # More input came with Enter than anyone types: it is a paste from a terminal that does
            # not mark pastes.
            buffer.insert_text("\n")
        elif self._line.is_completing() and not self._line.is_typed_out():
            self._line.accept()
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            self._submit("steer")

    def tab(self, event: KeyPressEvent) -> None:
        if self._line.is_completing():
            self._line.accept()
        elif self._line.control.is_working:
            self._submit("queue")

    def new_line(self, event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

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
            self._line.say("Ctrl-C again leaves")

    def end(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.delete()
        elif not self._line.control.is_working or self._again("c-d"):
            self._line.control.leave()
        else:
            self._line.say("the agent works: Esc interrupts it, Ctrl-D again leaves")

    def edit(self, event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    def _submit(self, delivery: Delivery) -> None:
        self._line.control.submit(self._line.submission(delivery))
