"""What `agent undo`, `/undo` and the other commands that restore files report."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from agentcli.app.undo import UndoResult
from agentcli.checkpoints.snapshots import Change
from agentcli.ui.text import printable

MOST_SHOWN = 40
"""Most changed files shown at a terminal; a pipe gets all of them."""


def report_undo(session_id: str, done: UndoResult, as_json: bool, flags: str) -> None:
    """Report what was undone; `flags` are those of the rewind command that leads back."""
    if as_json:
        changes = list(map(change_as_dict, done.changes))
        print(json.dumps({"session_id": session_id, **asdict(done), "changes": changes}))
        return
    for row in restored_lines(done, MOST_SHOWN if sys.stdout.isatty() else len(done.changes)):
        print(row)
    for row in undo_notes(done, f"agent rewind {session_id} {flags}--to {done.kept_at}"):
        print(row, file=sys.stderr)


def restored_lines(done: UndoResult, most: int = MOST_SHOWN) -> list[str]:
    """Return the restored files, one per row."""
    rows = [change_line(change) for change in done.changes[:most]]
    more = len(done.changes) - most
    return [*rows, f"… and {more} more"] if more > 0 else rows


def undo_notes(done: UndoResult, way_back: str) -> list[str]:
    """Return rows that say where the session is now, how to get back, and what was left alone."""
    told = f"now at event {done.to_event}"
    if done.kept_at is not None:
        told += f"; to take that back: {way_back}"
    rows = [told]
    if done.left_out:
        kept = printable(", ".join(done.left_out), multiline=False)
        rows.append(f"not in the checkpoints, so left as it is: {kept}")
    if done.held:
        held = printable(", ".join(done.held), multiline=False)
        rows.append(f"not restored, as commands may have made it: {held}")
    return rows


def change_as_dict(change: Change) -> dict[str, str]:
    told = {"told": change.git_description} if change.git_description else {}
    return {"path": change.path, "kind": change.kind, **told}


def change_line(change: Change) -> str:
    sign = {"added": "+", "deleted": "-", "modified": "~", "mode": "m"}[change.kind]
    return f"{sign} {printable(change.git_description or change.path, multiline=False)}"
