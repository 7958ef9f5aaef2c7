"""Take back what the last steps did to files and to git.

Undoes the last N steps that changed files, or git's branches, index or stash. What the agent did
not change stays as it is. If somebody else has changed the same things since, you are told, and
--force undoes the steps all the same. The conversation stays; rewind takes that back too.

Examples:
  agent undo
  agent undo 2                        # the last two steps that changed files
  agent undo -s parser --force
  /undo 3
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

from agentcli.app.undo import UndoResult
from agentcli.app.undo import undo as undo_steps
from agentcli.cli.command import Command, CommandTarget, Report, ShellTarget
from agentcli.cli.commands.diff import change_as_dict, change_line
from agentcli.cli.options import argument, number, option
from agentcli.errors import UsageError
from agentcli.ui.text import Span, printable

FORCE = "--force"
_MOST_SHOWN = 40
"""Most changed files shown to people; a pipe gets all of them."""


def undo(
    target: CommandTarget,
    count: Annotated[int, argument("N", "How many steps.", min=1)] = 1,
    force: Annotated[bool, option(FORCE, "Also where somebody else changed the file since.")] = (
        False
    ),
) -> Report:
    with target.session_at_rest() as session:
        try:
            done = undo_steps(session, count, force=force)
        except UsageError as error:
            if not isinstance(target, ShellTarget):
                again = f"/undo {count} {FORCE}"
                error.hint = f"{again} loses these changes" if FORCE in error.hint else ""
            raise
    return restored(target, session.id, done, "files")


def restored(target: CommandTarget, session_id: str, done: UndoResult, part: str) -> Report:
    """Report what was undone; `part` of the session leads back: "files", "conversation", ""."""
    in_shell = isinstance(target, ShellTarget)
    most = len(done.changes) if in_shell and not sys.stdout.isatty() else _MOST_SHOWN
    rows = list(map(change_line, done.changes[:most]))
    if more := len(done.changes[most:]):
        rows.append(f"… and {more} more")
    way_back = f"/rewind {done.kept_at} {part}".rstrip()
    if in_shell:
        way_back = f"agent rewind {session_id} {f'--{part} ' * bool(part)}--to {done.kept_at}"
    back = "" if done.kept_at is None else f"; to take that back: {way_back}"
    notes = [f"now at event {done.to_event}{back}"]
    for told, names in (
        ("not in the checkpoints, so left as it is", done.left_out),
        ("not restored, as commands may have made it", done.held),
    ):
        if names:
            notes.append(f"{told}: {printable(', '.join(names), multiline=False)}")
    changes = list(map(change_as_dict, done.changes))
    data = {"session_id": session_id, **asdict(done), "changes": changes}
    return Report([[Span(row)] for row in rows], notes, data=data, indent=None)


def _parsed(text: str) -> dict[str, Any]:
    words = text.split()
    counts = [word for word in words if word != FORCE]
    if len(counts) > 1:
        raise UsageError("/undo takes one number", hint="such as /undo 3")
    count = number(counts[0], "/undo 3") if counts else 1
    return {"count": count, "force": FORCE in words}


UNDO = Command(undo, f"[N] [{FORCE}]", _parsed)
COMMAND = UNDO.in_shell("option", doing="undoing")
