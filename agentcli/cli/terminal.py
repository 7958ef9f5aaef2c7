"""The user at the terminal: asked to agree, shown that something takes a while, given long texts in
their pager.
"""

from __future__ import annotations

import io
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from threading import Timer
from typing import TextIO

from agentcli.errors import UsageError
from agentcli.system.programs import find_program, user_environ
from agentcli.ui.screen import is_plain, terminal_size
from agentcli.ui.text import cells, printable

_A_MOMENT_S = 0.5


def at_terminal() -> bool:
    """Return whether a user sees all output and can choose."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def confirmed(question: str, yes: bool) -> bool:
    """Ask the user to agree, unless `yes`. Raises UsageError when there is nobody to ask."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask at", hint="add --yes to do it without asking")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show at a terminal that `what` is being done, once it takes longer than a moment. Yields a
    function that changes the message, on one row."""
    if not sys.stderr.isatty():
        yield lambda told: None
        return
    from rich.console import Console  # 40 ms, and most commands are done before it is needed
    from rich.text import Text

    status = Console(stderr=True).status(what)
    timer = Timer(_A_MOMENT_S, status.start)
    timer.start()
    try:
        yield lambda told: status.update(
            Text(printable(told, multiline=False), no_wrap=True, overflow="ellipsis")
        )
    finally:
        timer.cancel()
        status.stop()


@contextmanager
def paged(no_pager: bool = False, *, at_end: bool = False) -> Iterator[None]:
    """Page what the block prints: at a terminal, text longer than the screen goes through the
    user's pager, from its beginning or `at_end`. Elsewhere, nothing changes."""
    terminal = sys.stdout
    if no_pager or not terminal.isatty() or is_plain(user_environ()):
        yield
        return
    printed = _Printed(terminal)
    shown = False
    try:
        with redirect_stdout(printed):
            yield
        text = printed.getvalue()
        shown = not fits_screen(text) and show_in_pager(text, at_end=at_end)
    finally:
        if not shown:
            terminal.write(printed.getvalue())
            terminal.flush()


class _Printed(io.StringIO):
    """Keeps what is printed, and pretends to be the terminal that it is meant for."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()


def show_in_pager(text: str, *, at_end: bool = False) -> bool:
    """Show `text`, which may have colours, in $PAGER, else less; `at_end` starts at its last rows.
    Return False, with nothing shown, if there is no pager. The caller must own the terminal."""
    environ = dict(user_environ())
    try:
        words = shlex.split(environ.get("PAGER", "less"))
    except ValueError:  # an unclosed quote
        return False
    program = find_program(words[0]) if words else None
    if program is None:
        return False
    arguments = words[1:]
    if program.endswith("/less"):
        # -R for colours. Without -F and -X, less takes the whole screen and stays open for short
        # texts.
        arguments += ["-R", "+G"] if at_end else ["-R"]
    environ["LESSSECURE"] = "1"
    process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, env=environ)
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(text.encode("utf-8", "replace"))
    with suppress(OSError):
        process.stdin.close()
    with _interrupts_left_to_pager():
        process.wait()
    return True


@contextmanager
def _interrupts_left_to_pager() -> Iterator[None]:
    """Let ^C end a search in the pager, not the program behind it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def fits_screen(text: str) -> bool:
    """Return whether the terminal shows all of `text` at once, with a spare row for the prompt."""
    columns, rows = terminal_size(sys.stdout)
    taken = sum(max(1, -(-cells(line) // columns)) for line in text.splitlines())
    return taken < rows
