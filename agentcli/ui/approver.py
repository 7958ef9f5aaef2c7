"""Asking the person at the terminal whether an action may run."""

from __future__ import annotations

import errno
import os
import select
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from agentcli.errors import TurnInterrupted
from agentcli.events import Action
from agentcli.events.actions import FileEditAction, FileWriteAction
from agentcli.events.base import Risk
from agentcli.ui.approval_view import approval_view
from agentcli.ui.literal import rows, texts, visible, wrapped
from agentcli.ui.live import terminal_size
from agentcli.ui.sanitize import printable
from agentcli.ui.style import Colors, Line, Span, Style, paint

Scope = Literal["once", "session", "always"]
_KEYS: dict[str, tuple[bool, Scope]] = {
    "y": (True, "once"),
    "yes": (True, "once"),
    "s": (True, "session"),
    "session": (True, "session"),
    "a": (True, "always"),
    "always": (True, "always"),
    "n": (False, "once"),
    "no": (False, "once"),
}
_ALMOST_YES = frozenset(("ok", "okay", "sure", "yep", "yeah", "yes please", "yes!", "all", "go on"))
_RISKS: dict[Risk, tuple[str, Style]] = {
    Risk.LOW: ("low", ""),
    Risk.MEDIUM: ("medium", "yellow"),
    Risk.HIGH: ("HIGH", "red bold"),
}
_RETRY_S = 0.25
_HUNG_UP = "the terminal was closed"


@dataclass(frozen=True, slots=True)
class Approval:
    """The person's answer. `reason` is what they want the model to know; `scope` says for how long
    the rule that was shown holds: not at all, for this session, or from now on here."""

    allowed: bool
    scope: Scope = "once"
    reason: str = ""


class _Closed(Exception):
    """Nobody can answer at this terminal any more; says why."""


class TerminalApprover:
    """Talks to the controlling terminal itself, wherever stdin and stdout go.

    `before_asking` is called first, so that whatever else draws on the terminal can make room.
    `grant_text` is the rule that a lasting answer would save, such as `bash(git push:*)`; without
    one, and where the risk is high, only this once can be allowed. `current_text` is what a file
    holds that is to be written, None when it can't be told. A terminal that hangs up gets
    `timeout_s` to come back; a living one waits for the person as long as it takes.
    """

    def __init__(
        self,
        tty_path: str = "/dev/tty",
        *,
        before_asking: Callable[[], None] = lambda: None,
        grant_text: Callable[[Action], str] = lambda action: "",
        current_text: Callable[[str], str | None] = lambda path: None,
        timeout_s: float = 60.0,
    ) -> None:
        self._tty_path = tty_path
        self._before_asking = before_asking
        self._grant_text = grant_text
        self._current_text = current_text
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._colors: Colors = "none" if plain else "full"
        self._timeout_s = timeout_s

    def available(self) -> bool:
        """Whether there is a person to ask: stderr is a terminal and the tty opens."""
        if not sys.stderr.isatty():
            return False
        try:
            os.close(self._open())
        except OSError:
            return False
        return True

    def ask(
        self,
        action: Action,
        reason: str,
        *,
        risk: Risk = Risk.UNKNOWN,
        place: tuple[int, int] | None = None,
    ) -> Approval:
        """Show the whole of `action` and wait for an answer; the end of input is a no. `reason` is
        why it is asked, `place` which of how many questions this is, from 1.

        A terminal that is gone, at whatever moment, is a no. An interrupt passes through.
        """
        self._before_asking()
        fd = -1
        try:
            fd = self._open_patiently()
            with _line_mode(fd):
                rule = "" if risk >= Risk.HIGH else self._grant_text(action)
                size = terminal_size(fd)
                question = self._question(size, action, reason, risk, place)
                return self._converse(fd, [*question, *self._keys(rule, size[0])], rule)
        except _Closed as closed:
            return Approval(False, reason=f"no answer: {closed}")
        except (TurnInterrupted, KeyboardInterrupt):
            _write(fd, "\n")
            raise
        finally:
            if fd >= 0:
                os.close(fd)

    def _open(self) -> int:
        return os.open(self._tty_path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def _open_patiently(self) -> int:
        """Raises _Closed when there has been no terminal for as long as one is waited for."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._open()
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise _Closed(_HUNG_UP) from error
                _give_way(self._timeout_s)

    def _converse(self, fd: int, question: list[Line], rule: str) -> Approval:
        keys = "y, s, a, n" if rule else "y, n"
        self._say(fd, question)
        with suppress(termios.error):
            termios.tcflush(fd, termios.TCIFLUSH)
        while True:
            _write(fd, paint([Span(">", "bold"), Span(" ")], self._colors))
            answer = _understand(_read_line(fd, self._timeout_s))
            if answer is not None and (rule or answer.scope == "once"):
                return answer
            self._say(fd, [[Span(f"  {keys}, or a few words for the model")]])

    def _say(self, fd: int, lines: list[Line]) -> None:
        _write(fd, "".join(paint(line, self._colors) + "\n" for line in lines))

    def _question(
        self,
        size: tuple[int, int],
        action: Action,
        reason: str,
        risk: Risk,
        place: tuple[int, int] | None,
    ) -> list[Line]:
        width, height = size
        what = approval_view(action, self._current(action))
        count = f" ({place[0]} of {place[1]})" if place and place[1] > 1 else ""
        title = f"Allow this {visible(what.kind)}?{count}"
        body = list(rows(what.body, width))
        lines: list[Line] = [[], *_hanging(title, width, "", style="bold"), [], *body]
        if len(body) > height - 12:
            lines += _hanging(f"{len(body)} rows: scroll up for the first", width, style="yellow")
        if what.place:
            lines += _hanging(f"in {visible(what.place)}", width)
        for want in what.wants:
            lines += _hanging(f"It {want}.", width, style="yellow")
        if what.words:
            lines += [[Span("  why, in the model's own words:")], *_quoted(what.words, width)]
        if risk in _RISKS:
            word, style = _RISKS[risk]
            lines += _hanging(f"risk: {word}", width, style=style)
        if reason:
            lines += _hanging(f"asked because: {visible(reason)}", width)
        return [*lines, []]

    def _keys(self, rule: str, width: int) -> list[Line]:
        choices = [("y", "yes, once")]
        lines: list[Line] = []
        if rule:
            lines += [[Span("  the rule for s and a:")], *_quoted(rule, width)]
            choices += [
                ("s", "yes, and what the rule allows until this session ends"),
                ("a", "yes, and what the rule allows in this workspace from now on"),
            ]
        choices.append(("n", "no; or type what the model should know or do instead"))
        for key, meaning in choices:
            first, *others = wrapped(meaning, width - 5)
            lines.append([Span("  "), Span(key, "bold"), Span(f"  {first.rstrip('␣')}")])
            lines += [[Span(f"     {piece}".rstrip("␣"))] for piece in others]
        return lines

    def _current(self, action: Action) -> str | None:
        if isinstance(action, FileWriteAction | FileEditAction):
            return self._current_text(action.path)
        return None


def _quoted(text: str, width: int) -> list[Line]:
    return list(rows(texts(text), width))


def _hanging(text: str, width: int, before: str = "  ", *, style: Style = "") -> list[Line]:
    """Visible text with its rows below each other."""
    pieces = wrapped(text, width - len(before))
    return [[Span(f"{before}{piece.rstrip('␣')}", style)] for piece in pieces]


def _understand(line: str) -> Approval | None:
    text = printable(line, multiline=False).strip()
    if any(unicodedata.category(char) == "Cc" for char in line.rstrip("\r\n").replace("\t", " ")):
        # A key such as an arrow was meant to move, not to answer.
        return None
    if text.lower() in _KEYS:
        allowed, scope = _KEYS[text.lower()]
        return Approval(allowed, scope)
    if len(text) <= 2 or text.lower().rstrip(".!") in _ALMOST_YES:
        return None
    return Approval(False, reason=text)


def _read_line(fd: int, timeout_s: float) -> str:
    """Raises _Closed at the end of input, and when the terminal has hung up for `timeout_s`."""
    data = b""
    deadline = None
    while not data.endswith(b"\n"):
        chunk = _read(fd)
        if chunk:
            data, deadline = data + chunk, None
            continue
        if chunk is not None and not _hung_up(fd):
            _write(fd, "\n")
            raise _Closed("the end of input was typed")
        deadline = deadline or time.monotonic() + timeout_s
        if time.monotonic() >= deadline:
            raise _Closed(_HUNG_UP)
        _give_way(timeout_s)
    return data.decode("utf-8", "replace")


def _give_way(timeout_s: float) -> None:
    """To a hang-up signal that is on its way: it ends the turn and leaves the question open."""
    time.sleep(min(_RETRY_S, timeout_s))


def _read(fd: int) -> bytes | None:
    """None where there is no terminal to read from."""
    try:
        return os.read(fd, 4096)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.ENXIO):
            raise
        return None


def _hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def _write(fd: int, text: str) -> None:
    """What can't be shown because the terminal is gone is found out when an answer is read."""
    data = text.encode("utf-8", "replace")
    with suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]


@contextmanager
def _line_mode(fd: int) -> Iterator[None]:
    """The terminal reads whole lines with echo, as a program before may have left it otherwise.

    What was typed before the question is dropped: it can't have been meant as an answer. That the
    terminal has hung up is found out when an answer is read.
    """
    before = None
    with suppress(termios.error):
        before = termios.tcgetattr(fd)
        mode = termios.tcgetattr(fd)
        mode[0] |= termios.ICRNL
        mode[1] |= termios.OPOST | termios.ONLCR
        mode[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG
        termios.tcsetattr(fd, termios.TCSAFLUSH, mode)
    try:
        yield
    finally:
        if before is not None:
            with suppress(termios.error):
                termios.tcsetattr(fd, termios.TCSADRAIN, before)
