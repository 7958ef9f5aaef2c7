"""The prompt where nothing is redrawn: lines as the terminal itself reads them, between turns."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentcli.ui.live import LiveRegion
from agentcli.ui.sanitize import printable

_STDIN = 0
_CHUNK = 65_536
_BURST_MS = 50
"""Lines that come faster than anyone types are one message: a paste."""


class LinePrompt:
    """For terminals that can't be drawn on, and screen readers. Has the terminal only in `read`."""

    shows_what_is_typed = True

    def __init__(self) -> None:
        self.region = LiveRegion(sys.stderr)

    def read(self) -> str | None:
        """The next message; None at the end of input. Lines that end with a backslash go on."""
        text, mark = "", "> "
        while True:
            self._show(mark)
            data = os.read(_STDIN, _CHUNK)
            while data and self._has_more():
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
        """The terminal edits the line."""

    def complete_again(self) -> None:
        """Nothing is completed."""

    def restore_terminal(self) -> None:
        """It is as it was."""

    start = close = restore_terminal

    def _has_more(self) -> bool:
        poll = select.poll()
        poll.register(_STDIN, select.POLLIN)
        return bool(poll.poll(_BURST_MS))

    def _show(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
