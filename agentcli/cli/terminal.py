"""The user at the terminal: asked to agree, and shown that something takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from agentcli.errors import UsageError
from agentcli.ui.sanitize import printable

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
