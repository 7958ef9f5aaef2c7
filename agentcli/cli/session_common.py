"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

from agentcli.app.configuration.config import resolve_workspace
from agentcli.checkpoints.pack_store import empty_pool
from agentcli.cli.options import argument, option
from agentcli.errors import UsageError
from agentcli.sessions.manage.staging import sweep
from agentcli.sessions.recovery import unfinished_restore
from agentcli.sessions.session import Session
from agentcli.sessions.state import State
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.ui.sanitize import printable
from agentcli.ui.summary import ago

Json = Annotated[bool, option("--json", "For programs.")]
Everywhere = Annotated[bool, option("--all, -a", "Of all folders, not only of this one.")]
Yes = Annotated[bool, option("--yes, -y", "Do not ask.")]
SessionId = Annotated[str, argument("SESSION", "Id, unique start of one, or name.")]

_LONG_AGO_DAYS = 30
_A_MOMENT_S = 0.5


def home() -> Path:
    return state_home(user_environ())


def clean_up_interrupted_work() -> None:
    """Remove what killed commands left half done, and report what became of it."""
    for told in sweep(home()):
        print(f"agent: {printable(told, multiline=False)}", file=sys.stderr)
    empty_pool(home())


def warn_unfinished_restore(session: Session) -> None:
    """Report that a restore of files was cut off because its process ended."""
    if begun := unfinished_restore(session.events):
        print(
            f"agent: {begun.content} was interrupted: some files are restored, others are not\n"
            f"  to finish it: {begun.command}\n"
            f"  to take it back: agent rewind {session.id} --files --to {begun.kept_at}",
            file=sys.stderr,
        )


def here() -> Path:
    return resolve_workspace(None)


def tilde_path(path: Path | str) -> str:
    """Return `path` with `~` for the user's home, safe to show."""
    home, text = user_environ().get("HOME", ""), str(path)
    if home and (text == home or text.startswith(f"{home}/")):
        text = f"~{text.removeprefix(home)}"
    return printable(text, multiline=False)


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


def label(state: State) -> str:
    """Return name and title on one line, safe to show."""
    text = f"{state.name}: {state.title}" if state.name else state.title
    return printable(text, multiline=False).strip()


def age(moment: datetime) -> str:
    """Return how long ago that was, in at most eleven columns; the date if it was long ago."""
    passed = datetime.now(UTC) - moment
    if passed.days > _LONG_AGO_DAYS:
        return f"{moment.astimezone():%Y-%m-%d}"
    return ago(passed.total_seconds())


def row(session_id: str, state: State) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "name": state.name,
        "title": state.title,
        "state": state.agent_state,
        "workspace": state.workspace,
        "model": state.model,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
        "delegated_by": state.delegated_by,
        "steps": state.iteration,
        "prompt_tokens": state.total("prompt_tokens"),
        "completion_tokens": state.total("completion_tokens"),
        "cache_read_tokens": state.total("cache_read_tokens"),
        "cost_usd": state.cost_usd,
        "events": state.end_id + 1,
    }


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
