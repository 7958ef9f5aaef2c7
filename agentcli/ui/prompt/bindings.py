"""The key bindings of the prompt. Editing keys are prompt_toolkit's own, emacs or vi."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prompt_toolkit.filters import (
    Condition,
    emacs_mode,
    has_focus,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agentcli.ui.prompt.control import Delivery

if TYPE_CHECKING:
    from agentcli.ui.prompt.conversation_prompt import ConversationPrompt

_AGAIN_S = 2.0
"""A second press within this time confirms the first."""
_TWICE_S = 0.6


def _open_editor(event: KeyPressEvent) -> None:
    """Let the user edit the message in $EDITOR."""
    event.current_buffer.open_in_editor()


def bindings(prompt: ConversationPrompt) -> KeyBindings:
    keys, act = KeyBindings(), _Acts(prompt)
    typing = has_focus(prompt.buffer)
    completing = Condition(prompt.is_completing) & typing
    working = Condition(lambda: prompt.control.is_working)
    writing = typing & ~vi_insert_mode
    for key, when, handler in (
        (("enter",), typing, act.enter),
        (("escape", "enter"), typing, act.new_line),
        (("c-j",), typing, act.new_line),
        (("tab",), typing, act.tab),
        (("down",), completing, lambda event: prompt.choose(1)),
        (("c-n",), completing, lambda event: prompt.choose(1)),
        (("up",), completing, lambda event: prompt.choose(-1)),
        (("c-p",), completing, lambda event: prompt.choose(-1)),
        (("up",), typing & ~completing, act.up),
        ((Keys.BracketedPaste,), typing, lambda event: prompt.paste(event.data)),
        (("c-v",), writing, lambda event: prompt.paste_image()),
        (("c-g",), typing, _open_editor),
        (("c-x", "c-e"), typing & emacs_mode, _open_editor),
        (("v",), typing & vi_navigation_mode, _open_editor),
        (("escape",), writing & ~completing, act.escape),
        (("c-c",), typing, act.interrupt),
        (("c-d",), typing, act.end),
        (("s-tab",), typing, lambda event: prompt.control.next_approval_mode()),
        (("c-o",), typing, lambda event: prompt.control.unfold()),
        (("c-b",), working, lambda event: prompt.control.to_background()),
        (("c-l",), typing, lambda event: event.app.renderer.clear()),
        (("c-z",), typing, lambda event: prompt.stop()),
    ):
        keys.add(*key, filter=when)(handler)
    keys.add("escape", filter=completing, eager=True)(lambda event: prompt.leave_completion())
    return keys


class _Acts:
    """Keys whose effect depends on the state of the prompt."""

    def __init__(self, prompt: ConversationPrompt) -> None:
        self._prompt = prompt
        self._last_pressed: dict[str, float] = {}

    def enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if event.app.key_processor.input_queue:
            # More input came with Enter than anyone types: it is a paste from a terminal that does
            # not mark pastes.
            buffer.insert_text("\n")
        elif self._prompt.is_completing() and not self._prompt.is_typed_out():
            self._prompt.accept()
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            self._submit("steer")

    def tab(self, event: KeyPressEvent) -> None:
        if self._prompt.is_completing():
            self._prompt.accept()
        elif self._prompt.control.is_working:
            self._submit("queue")

    def new_line(self, event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    def up(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not buffer.text and (taken := self._prompt.control.take_back()) is not None:
            buffer.insert_text(taken)
        else:
            buffer.auto_up(count=event.arg)

    def escape(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if self._prompt.control.is_working:
            self._prompt.control.interrupt()
        elif buffer.text:
            if self._again("escape on text", _TWICE_S):
                buffer.reset()
        elif self._again("escape", _TWICE_S):
            self._prompt.control.rewind()

    def interrupt(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        elif self._prompt.control.is_working:
            self._prompt.control.interrupt()
        elif self._again("c-c"):
            self._prompt.control.leave()
        else:
            self._prompt.say("Ctrl-C again leaves")

    def end(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text:
            buffer.delete()
        elif not self._prompt.control.is_working or self._again("c-d"):
            self._prompt.control.leave()
        else:
            self._prompt.say("the agent works: Esc interrupts it, Ctrl-D again leaves")

    def _again(self, key: str, within_s: float = _AGAIN_S) -> bool:
        """Return whether the key was pressed again soon enough to confirm the first press."""
        now = time.monotonic()
        again = now - self._last_pressed.get(key, -within_s) < within_s
        self._last_pressed[key] = -within_s if again else now
        return again

    def _submit(self, delivery: Delivery) -> None:
        self._prompt.control.submit(self._prompt.submission(delivery))
