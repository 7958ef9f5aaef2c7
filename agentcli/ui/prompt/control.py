"""The interface between the prompt and its conversation, and the prompt of plain terminals."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from agentcli.ui.screen import LiveRegion, Region
from agentcli.ui.text import Line, printable
from agentcli.ui.tty import is_ready

_COMMAND = re.compile(r"/[\w-]*(?:\s|\Z)|!")

Delivery = Literal["steer", "queue"]


@dataclass(frozen=True, slots=True)
class Submission:
    """What the user has entered, with pasted blocks in full, and its images. `delivery` says when
    an agent at work is meant to get it. `line` is the input line itself, with chips for pasted
    blocks and images; it is empty if the text was not typed there."""

    text: str
    images: tuple[Path, ...] = ()
    delivery: Delivery = "steer"
    line: str = ""

    @property
    def typed(self) -> str:
        """The text to put into the input line again."""
        return self.line or self.text

    @property
    def is_command(self) -> bool:
        """Whether it is `/name …`, which can't be a path, or `!…`."""
        return _COMMAND.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class Waiting:
    """An entry that waits to be read by the agent or run; one that is `held` waits for
    /queue release."""

    text: str
    held: bool = False
    after_turn: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion: `text` replaces what is being completed; `help` describes it in one line."""

    text: str
    help: str = ""


class Prompt(Protocol):
    """The part of the prompt that the conversation needs."""

    region: Region
    shows_what_is_typed: ClassVar[bool]
    """Whether the terminal itself keeps an entered line on the screen."""

    def start(self) -> None: ...
    def close(self) -> None:
        """Remove what is live, and restore the terminal."""

    def restore_terminal(self) -> None:
        """Restore the terminal when the process is about to end without `close`; may be called in
        a signal handler."""

    def suspended(self) -> AbstractContextManager[None]:
        """Leave the terminal to the caller: nothing is drawn and no key is read. Not for the
        prompt's own thread."""

    def give_way_to(self, act: Callable[[], object]) -> None:
        """Let `act` use the terminal for as long as it takes."""

    def put(self, text: str) -> None:
        """Put `text` into the input line, to be edited."""

    def say(self, text: str) -> None:
        """Show `text` below the line until the next key."""

    def send_sequence(self, sequence: str) -> bool:
        """Send `sequence`, which shows nothing and does not move the cursor, to the terminal.
        Return False if that is not possible."""

    def use_vi_keys(self) -> None:
        """Use vi's editing keys in place of emacs's."""

    def complete_again(self) -> None:
        """Look for completions again, as there may be more now."""


class Control(Protocol):
    """What the prompt asks of the conversation. All calls are made on the prompt's thread, so they
    must return at once."""

    @property
    def is_working(self) -> bool: ...
    def submit(self, submission: Submission) -> None: ...
    def interrupt(self) -> None:
        """Stop what is going on; the conversation stays open."""

    def leave(self) -> None: ...
    def next_approval_mode(self) -> None: ...
    def to_background(self) -> None:
        """Let the running command go on in the background."""

    def unfold(self) -> None:
        """Show everything that was done, in full."""

    def rewind(self) -> None: ...
    def tick(self) -> None:
        """Called ten times a second while the agent works, otherwise once a second."""

    def status(self) -> Line: ...
    @property
    def held(self) -> bool:
        """Whether waiting entries are held until the user sends them, by Enter on an empty line."""

    def queued(self) -> Sequence[Waiting]:
        """Return the waiting entries in order."""

    def take_back(self) -> str | None:
        """Remove the newest waiting entry and return it."""

    def complete(self, text: str) -> tuple[int, Sequence[Completion]]:
        """Given the text before the cursor, return how many characters at its end are being
        completed, and the completions."""


_STDIN = 0
_CHUNK = 65_536
_BURST_S = 0.05
"""Lines that arrive faster than anyone types are one message, as they were pasted."""


class LinePrompt(Prompt):
    """A prompt for terminals that can't be drawn on, and for screen readers. It uses the terminal
    only in `read`: the terminal edits the line, and there are no completions."""

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

    def restore_terminal(self) -> None:
        """Do nothing, as the terminal was never changed."""

    start = close = use_vi_keys = complete_again = restore_terminal

    def _show(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
