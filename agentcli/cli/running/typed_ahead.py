"""What a user types at the terminal while a one-shot run works: messages for its session."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from agentcli import interrupts
from agentcli.cli.running.outcome import is_pipe
from agentcli.errors import SessionError
from agentcli.events import Event, Progress
from agentcli.interrupts import shield
from agentcli.sessions import inbox
from agentcli.sessions.session import SessionLog
from agentcli.ui.summary import count
from agentcli.ui.text import printable

_STDIN = 0
_LOOK_S = 0.05
_CHUNK = 65_536
_MOST_BYTES = 1_000_000
_MOST_SHOWN = 60


def is_typed_at() -> bool:
    """Return whether text typed at the controlling terminal is meant for this process, as far as
    can be known: at the end of a pipe, another program such as a pager may read the keys."""
    with suppress(OSError, ValueError):
        os.tcgetpgrp(_STDIN)
        return sys.stderr.isatty() and not is_pipe(sys.stdout)
    return False


@dataclass(eq=False)
class TypedAhead:
    """Turns lines typed between `begin` and `end` into messages that the session hears at its next
    step. The terminal does not show them, and nothing reaches the shell: what is left at the end is
    dropped. `show` and `tell` are given a sentence, during the work and at its end.

    This is a subscriber: it reads only when something happens, so never during a question to the
    user, which has the terminal to itself. Ctrl-C, Ctrl-Z and Ctrl-\\ stay signals.
    """

    session: SessionLog
    show: Callable[[str], None]
    tell: Callable[[str], None]
    _before: list[Any] | None = None
    """The terminal's modes to restore; None while they are in force."""
    _ids: set[str] = field(default_factory=set)
    _looked: float = 0.0
    _signals: ExitStack = field(default_factory=ExitStack)

    def begin(self) -> None:
        with shield():
            self._signals.enter_context(interrupts.around_stop(self._leave, self._come_back))
            self._come_back()
        self.session.subscribe(self)

    def end(self) -> None:
        """Stop, whether or not it has begun."""
        with shield():
            dropped = self._read_rest()
            self._leave()
            self._signals.close()
        waiting = inbox.waiting(self.session.folder) if self._ids else ()
        if self._ids.intersection(each.id for each in waiting):
            when = f"when the session continues: agent resume {self.session.id}"
            self.tell(f"what you typed will be heard {when}")
        if dropped:
            self.tell(f"discarded {count(dropped, 'character')} typed at the end")

    def on_event(self, event: Event) -> None:
        self._look()

    def on_progress(self, progress: Progress) -> None:
        if time.monotonic() - self._looked >= _LOOK_S:
            self._look()

    def _leave(self) -> None:
        """Restore the terminal; unread text is dropped. Also for signal handlers."""
        before, self._before = self._before, None
        if before is not None and _is_in_front():
            with suppress(termios.error):
                termios.tcsetattr(_STDIN, termios.TCSAFLUSH, before)

    def _come_back(self) -> None:
        """Hide what is typed, if this process has the terminal."""
        if self._before is not None or not _is_in_front():
            return
        with suppress(termios.error):
            before, modes = termios.tcgetattr(_STDIN), termios.tcgetattr(_STDIN)
            modes[3] = modes[3] & ~(termios.ECHO | termios.ECHONL) | termios.ICANON | termios.ISIG
            self._before = before
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, modes)

    def _look(self) -> None:
        self._looked = time.monotonic()
        # The process may have been in the background, or started there.
        self._come_back()
        if not _is_in_front():
            return
        text = printable(_read().decode("utf-8", "replace")).strip()
        if not text:
            return
        try:
            self._ids.add(inbox.put(self.session.folder, text, "steer"))
        except SessionError as error:
            self.show(f"what you typed is lost: {error}")
            return
        line = text.partition("\n")[0]
        shown = line if len(text) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1]}…"
        self.show(f"heard at its next step: {shown}")

    def _read_rest(self) -> int:
        """Return how many characters nobody has read, including an unfinished line."""
        if self._before is None or not _is_in_front():
            return 0
        with suppress(termios.error):
            modes = termios.tcgetattr(_STDIN)
            modes[3] &= ~termios.ICANON
            modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0
            termios.tcsetattr(_STDIN, termios.TCSANOW, modes)
        return len(_read().decode("utf-8", "replace").strip())


def _is_in_front() -> bool:
    """Return whether the process can use the terminal without being stopped for it."""
    with suppress(OSError):
        return os.tcgetpgrp(_STDIN) == os.getpgrp()
    return False


def _read() -> bytes:
    """Return what can be read at once."""
    data, poll = b"", select.poll()
    poll.register(_STDIN, select.POLLIN)
    with suppress(OSError):
        while len(data) < _MOST_BYTES and any(event & select.POLLIN for _, event in poll.poll(0)):
            chunk = os.read(_STDIN, _CHUNK)
            if not chunk:
                # Either the end of input was typed, or the terminal is gone.
                break
            data += chunk
    return data
