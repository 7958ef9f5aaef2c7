"""Subscribers beside the screen: one holds back a new session until its task is recorded; the other
notifies a user who looks elsewhere by a bell or a notification and by the window's title.

Sequences: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html (BEL, OSC 0, and the stack of
titles by CSI 22 and 23 t), https://iterm2.com/documentation-escape-codes.html (OSC 9, which
WezTerm, Ghostty, Windows Terminal and others support too).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO

from agentcli.events import Event, Progress
from agentcli.events.actions import RenameAction, is_user_message
from agentcli.events.observations import AgentStateChangedObservation, SessionStartedObservation
from agentcli.events.progress import Notice
from agentcli.ui.summary import STATE_WORDS
from agentcli.ui.text import Span, clip, plain, printable


class Follower(Protocol):
    def on_event(self, event: Event) -> None: ...
    def on_progress(self, progress: Progress) -> None: ...


class DelayedFollower:
    """Passes on to `follower` what happens in a new session, starting once its task is recorded. So
    the session's id is never shown before the session can be resumed."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._held: list[Event | Notice] | None = []

    def on_event(self, event: Event) -> None:
        if self._held is None:
            self._follower.on_event(event)
            return
        self._held.append(event)
        if is_user_message(event):
            self._pass_on(self._held)

    def on_progress(self, progress: Progress) -> None:
        if self._held is not None and isinstance(progress, Notice):
            self._held.append(progress)
        else:
            # Other progress is momentary, so there is no point in keeping it.
            self._follower.on_progress(progress)

    def give_up(self) -> None:
        """Pass on what was held back, except the start: there will be no such session."""
        held = self._held or []
        self._pass_on([what for what in held if not isinstance(what, SessionStartedObservation)])

    def _pass_on(self, held: list[Event | Notice]) -> None:
        self._held = None
        for what in held:
            if isinstance(what, Event):
                self._follower.on_event(what)
            else:
                self._follower.on_progress(what)


Means = Literal["off", "bell", "osc9"]

_PUSH_TITLE, _POP_TITLE = "\x1b[22;0t", "\x1b[23;0t"
_LOOKING_S = 3.0
"""How long users are assumed to keep looking at the terminal after they did something."""
_LONGEST_TITLE, _LONGEST_TEXT = 60, 120
_NOT_FOR_TITLES = frozenset({"", "dumb", "unknown", "linux"})
"""Values of TERM for terminals without a title; some print sequences that they don't know."""
_WAITING = frozenset({"awaiting_user_confirmation", "awaiting_user_input"})
_SIGNS = {"running": "…", "user_confirmed": "…", "user_rejected": "…", "rate_limited": "…"}
_WORDS = {**STATE_WORDS, "awaiting_user_confirmation": "asks", "finished": "done"}


@dataclass(frozen=True, slots=True)
class NotifierSettings:
    """How to notify. Turns shorter than `after_s` are not reported: nobody has looked away yet."""

    means: Means = "bell"
    after_s: float = 10.0
    title: bool = True


class TerminalNotifier:
    """A subscriber of a session that notifies the user. Does nothing if `stream` is no terminal."""

    def __init__(
        self,
        stream: TextIO,
        settings: NotifierSettings,
        environ: Mapping[str, str],
        *,
        label: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`label` is the session's present name or title, if any."""
        self._stream = stream
        able = stream.isatty() and environ.get("TERM", "") not in _NOT_FOR_TITLES
        self._means: Means = settings.means if stream.isatty() else "off"
        self._has_title = able and settings.title
        self._after_s = settings.after_s
        self._in_tmux = bool(environ.get("TMUX"))
        self._label = label
        self._clock = clock
        self._present_at = clock()
        self._state = ""
        self._pushed = False

    def on_event(self, event: Event) -> None:
        if isinstance(event, RenameAction):
            self._label = event.name
        elif is_user_message(event):
            self._label = self._label or event.content.strip().split("\n", 1)[0]
            self._present_at = self._clock()
        elif isinstance(event, AgentStateChangedObservation):
            return self._enter(event)
        else:
            return None
        return self._show_title()

    def on_progress(self, progress: Progress) -> None:
        """Do nothing: no progress is worth a notification."""

    def close(self) -> None:
        """Restore the window's old title."""
        if self._pushed:
            self._pushed = False
            self._write(_POP_TITLE)

    def _enter(self, change: AgentStateChangedObservation) -> None:
        now = self._clock()
        if self._state not in _SIGNS and change.agent_state in _SIGNS:
            # Work begins because the user has just said or allowed something.
            self._present_at = now
        self._state = change.agent_state
        self._show_title()
        if change.agent_state in _SIGNS or change.reason == "interrupted":
            return
        asks = change.agent_state == "awaiting_user_confirmation"
        patience_s = min(_LOOKING_S, self._after_s) if asks else self._after_s
        if now - self._present_at < patience_s:
            return
        if self._means == "bell":
            self._write("\a")
        elif self._means == "osc9":
            what = _WORDS.get(change.agent_state, change.agent_state)
            sequence = f"\x1b]9;{_shown(f'agent {what}: {self._label}', _LONGEST_TEXT)}\a"
            if self._in_tmux:
                # tmux passes on sequences in this wrapper, if its settings allow it.
                sequence = f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
            self._write(sequence)

    def _show_title(self) -> None:
        if not self._has_title:
            return
        sign = _SIGNS.get(self._state) or ("?" if self._state in _WAITING else "")
        title = _shown(f"{sign} {self._label or 'agent'}".strip(), _LONGEST_TITLE)
        push = "" if self._pushed else _PUSH_TITLE
        self._pushed = True
        self._write(f"{push}\x1b]0;{title}\a")

    def _write(self, sequence: str) -> None:
        """Write the sequence in one piece, as others write to the same terminal."""
        with suppress(OSError, ValueError):
            self._stream.flush()
            os.write(self._stream.fileno(), sequence.encode("utf-8", "replace"))


def _shown(text: str, width: int) -> str:
    return plain(clip([Span(printable(text, multiline=False))], width))
