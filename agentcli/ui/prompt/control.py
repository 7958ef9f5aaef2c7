"""What the prompt needs of whoever it is the prompt of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from agentcli.ui.screen import Region
from agentcli.ui.style import Line

_COMMAND = re.compile(r"/[\w-]*(?:\s|\Z)|!")

Delivery = Literal["steer", "queue"]


@dataclass(frozen=True, slots=True)
class Submission:
    """What a person has typed, pasted blocks in full, and the images that came with it. `delivery`
    is when it is meant to be heard by an agent that works, `line` what stood in the input line,
    with chips for pasted blocks and images; empty where it was not typed there."""

    text: str
    images: tuple[Path, ...] = ()
    delivery: Delivery = "steer"
    line: str = ""

    @property
    def typed(self) -> str:
        """To be put into the input line again."""
        return self.line or self.text

    @property
    def is_command(self) -> bool:
        """`/name …`, which no path is, or `!…`."""
        return _COMMAND.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What was typed and waits to be heard or done; what is `held` does until
    /queue release."""

    text: str
    held: bool = False
    after_turn: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` takes the place of what is being completed; `help` says what it is, in a line."""

    text: str
    help: str = ""


class Prompt(Protocol):
    """Where the person types, as the conversation needs it."""

    @property
    def region(self) -> Region: ...
    @property
    def shows_what_is_typed(self) -> bool:
        """Whether a line stays on the screen by itself once it is entered."""

    def start(self) -> None: ...
    def close(self) -> None:
        """What is live vanishes, the terminal is as it was before."""

    def restore_terminal(self) -> None:
        """Where the process is about to end without `close`, in a signal handler too."""

    def suspended(self) -> AbstractContextManager[None]:
        """The terminal is the caller's: nothing is drawn, no key is read. Not on the prompt's own
        thread."""

    def give_way_to(self, act: Callable[[], object]) -> None:
        """Have `act` use the terminal for as long as it takes."""

    def put(self, text: str) -> None:
        """Have it in the line, to be edited."""

    def say(self, text: str) -> None:
        """Below the line, until the next key."""

    def send_sequence(self, sequence: str) -> bool:
        """Have the terminal act on `sequence`, which shows nothing and moves no cursor; False where
        it can't be asked to."""

    def use_vi_keys(self) -> None:
        """In place of those of emacs."""

    def complete_again(self) -> None:
        """More may fit what is typed now."""


class Control(Protocol):
    """Called on the thread of the prompt, so each call returns at once."""

    @property
    def is_working(self) -> bool: ...
    def submit(self, submission: Submission) -> None: ...
    def interrupt(self) -> None:
        """What goes on is to stop; the conversation stays."""

    def leave(self) -> None: ...
    def next_approval_mode(self) -> None: ...
    def to_background(self) -> None:
        """The running command is to go on in the background."""

    def unfold(self) -> None:
        """Show all that was done, in full."""

    def rewind(self) -> None: ...
    def tick(self) -> None:
        """Ten times a second while the agent works, else once a second."""

    def status(self) -> Line: ...
    @property
    def held(self) -> bool:
        """What waits is kept until the person sends it, by Enter on an empty line."""

    def queued(self) -> Sequence[Waiting]:
        """What waits to be heard or done, in its order."""

    def take_back(self) -> str | None:
        """The newest of what waits, which then waits no more."""

    def complete(self, text: str) -> tuple[int, Sequence[Completion]]:
        """For the text before the cursor: how many characters at its end are being completed, and
        what may take their place."""
