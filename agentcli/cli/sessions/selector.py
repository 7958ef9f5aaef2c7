"""The session that a command is about, chosen the same way by all commands: the one named by id,
unique start of an id, or name, else the one used last in this folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agentcli.app.configuration.places import resolve_workspace
from agentcli.checkpoints.pack_store import empty_pool
from agentcli.cli.error_reporting import internal_error
from agentcli.cli.user_paths import home
from agentcli.errors import UsageError
from agentcli.sessions.finder import find, newest
from agentcli.sessions.history import unfinished_restore
from agentcli.sessions.session import SessionLog
from agentcli.sessions.staging import sweep
from agentcli.ui.text import printable, say_note


def clean_up_interrupted_work() -> None:
    """Remove what killed commands left half done, and report what became of it. A failure of this
    is logged, and stops nothing."""
    for told in sweep(home(), internal_error):
        say_note(printable(told, multiline=False))
    empty_pool(home())


def warn_unfinished_restore(session: SessionLog) -> None:
    """Report that a restore of files was cut off because its process ended."""
    if begun := unfinished_restore(session.events):
        say_note(
            f"{begun.content} was interrupted: some files are restored, others are not\n"
            f"  to finish it: {begun.command}\n"
            f"  to take it back: agent rewind {session.id} --files --to {begun.kept_at}"
        )


class Chosen(NamedTuple):
    """The folder of a session, and the message for it if the user chose it from a list."""

    folder: Path
    message: str = ""


@dataclass(frozen=True)
class SessionSelector:
    """Selects a session of this folder or of all: the one named, the one used last, or one that the
    user at the terminal picks. With `can_wait`, the pick needs no message."""

    session: str | None = None
    newest: bool = False
    everywhere: bool = False
    can_wait: bool = False

    def find(self, folder: str | None = None) -> Chosen:
        """Find the session; `folder` is what -C says. Raises UsageError; TurnInterrupted on ^C."""
        if self.session is not None:
            if self.newest or self.everywhere:
                other = "the newest one" if self.newest else "--all"
                raise UsageError(f"which session: {self.session!r} or {other}?")
            return Chosen(find(home(), self.session))
        workspace = None if self.everywhere else resolve_workspace(folder)
        if self.newest:
            return Chosen(newest(home(), workspace))
        from agentcli.cli.sessions.choosing import choose_session  # loads prompt_toolkit

        picked = choose_session(workspace, can_wait=self.can_wait)
        return Chosen(picked.value, picked.message)


def selected_session(
    named: str | None = None, option: str | None = None, *, last: bool = False
) -> Path:
    """Return the folder of the session that a command is about: `named` by its argument or `option`
    by -s, else (or with `last`) the newest here. Raises UsageError."""
    if named is not None and option is not None:
        raise UsageError(f"which session: {named!r} or {option!r}?")
    session = named if named is not None else option
    clean_up_interrupted_work()
    return SessionSelector(session, newest=last or session is None).find().folder
