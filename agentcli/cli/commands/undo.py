"""Take back what the last steps did to files and to git.

Undoes the last N steps that changed files, or git's branches, index or stash. What the agent did
not change stays as it is.

Examples:
  agent undo
  agent undo 2                        # the last two steps that changed files
  agent undo -s parser --force
"""

from __future__ import annotations

from typing import Annotated

from agentcli.app.undo import undo as undo_steps
from agentcli.cli.options import Json, SessionOption, argument, option
from agentcli.cli.sessions.selector import selected_session, warn_unfinished_restore
from agentcli.cli.sessions.undo_report import report_undo
from agentcli.cli.terminal import working
from agentcli.sessions.session import Session


def undo(
    count: Annotated[int, argument("N", "How many steps.", min=1)] = 1,
    session: SessionOption = None,
    force: Annotated[
        bool, option("--force", "Also where somebody else changed the file since.")
    ] = False,
    as_json: Json = False,
) -> None:
    with Session.open(selected_session(option=session)) as opened:
        warn_unfinished_restore(opened)
        with working("undoing"):
            done = undo_steps(opened, count, force=force)
        report_undo(opened.id, done, as_json, "--files ")


COMMAND = undo
