"""The prompt for plain terminals: between turns, the terminal itself reads lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentcli.ui.approval_terminal import is_ready
from agentcli.ui.live import LiveRegion
from agentcli.ui.sanitize import printable

_STDIN = 0
_CHUNK = 65_536
_BURST_S = 0.05
"""Lines that arrive faster than anyone types are one message, as they were pasted."""


class LinePrompt:
    """A prompt for terminals that can't be drawn on, and for screen readers. It uses the terminal
    only in `read`."""

    shows_what_is_typed = True

    def __init__(self) -> None:
        self.region = LiveRegion(sys.stderr)

    def read(self) -> str | None:
        """Return the next message; None at the end of input. A backslash at the end of a line
        continues it."""
        text, mark = "", "> "
        while True:
            self._show(mark)
            data = os.read(_STDIN, _CHUNK)
            while data and is_ready(_STDIN, _BURST_S):
                data += os.read(_STDIN, _CHUNK)
            text += printable(data.decode("utf-8", "replace"))
            if not data:
                self._show("\n")
                return text or None
            goes_on = text.endswith("\\\n")
            text, mark = text.replace("\\\n", "\n"), "  "
            if not goes_on:
                return text.strip()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        yield

    def give_way_to(self, act: Callable[[], object]) -> None:
        act()

    def put(self, text: str) -> None:
        self.say(f"not sent: {text}")

    def say(self, text: str) -> None:
        if text:
            self._show(f"{printable(text)}\n")

    def send_sequence(self, sequence: str) -> bool:
        return False

    def use_vi_keys(self) -> None:
        """Do nothing: the terminal edits the line."""

    def complete_again(self) -> None:
        """Do nothing: there are no completions."""

    def restore_terminal(self) -> None:
        """Do nothing: the terminal was never changed."""

    start = close = restore_terminal

    def _show(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
