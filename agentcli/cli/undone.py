"""What `agent undo`, `rewind`, `fork` and `diff` share."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from agentcli.app.undo import UndoResult
from agentcli.checkpoints.snapshots import Change
from agentcli.ui.sanitize import printable

_MOST_SHOWN = 40
"""Changed files at a terminal; a pipe gets all of them."""


def tell_undone(session_id: str, done: UndoResult, as_json: bool, flags: str) -> None:
    """`flags`: with those one comes back from where one went."""
    if as_json:
        changes = list(map(change_as_dict, done.changes))
        print(json.dumps({"session_id": session_id, **asdict(done), "changes": changes}))
        return
    most = _MOST_SHOWN if sys.stdout.isatty() else len(done.changes)
    for change in done.changes[:most]:
        print(change_line(change))
    if len(done.changes) > most:
        print(f"… and {len(done.changes) - most} more")
    told = [f"now as at event {done.to_event}"]
    if done.kept_at is not None:
        told.append(f"to take that back: agent rewind {session_id} {flags}--to {done.kept_at}")
    print("; ".join(told), file=sys.stderr)
    if done.left_out:
        kept = printable(", ".join(done.left_out), multiline=False)
        print(f"not in the checkpoints, so as it was: {kept}", file=sys.stderr)
    if done.held:
        held = printable(", ".join(done.held), multiline=False)
        print(f"not brought back, as commands may have made it: {held}", file=sys.stderr)


def change_as_dict(change: Change) -> dict[str, str]:
    told = {"told": change.told} if change.told else {}
    return {"path": change.path, "kind": change.kind, **told}


def change_line(change: Change) -> str:
    sign = {"added": "+", "deleted": "-", "modified": "~", "mode": "m"}[change.kind]
    return f"{sign} {printable(change.told or change.path, multiline=False)}"
