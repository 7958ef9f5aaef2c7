"""Work on sessions that was interrupted: cleaned up, or reported."""

from __future__ import annotations

from agentcli.checkpoints.pack_store import empty_pool
from agentcli.cli.error_reporting import internal_error
from agentcli.cli.user_paths import home
from agentcli.sessions.manage.staging import sweep
from agentcli.sessions.recovery import unfinished_restore
from agentcli.sessions.session import Session
from agentcli.ui.text import printable, say_note


def clean_up_interrupted_work() -> None:
    """Remove what killed commands left half done, and report what became of it. A failure of this
    is logged, and stops nothing."""
    for told in sweep(home(), internal_error):
        say_note(printable(told, multiline=False))
    empty_pool(home())


def warn_unfinished_restore(session: Session) -> None:
    """Report that a restore of files was cut off because its process ended."""
    if begun := unfinished_restore(session.events):
        say_note(
            f"{begun.content} was interrupted: some files are restored, others are not\n"
            f"  to finish it: {begun.command}\n"
            f"  to take it back: agent rewind {session.id} --files --to {begun.kept_at}"
        )
