"""Show what a session has changed in files, as a patch.

With a step, show only what that one did: 1 is the last step that changed something. What you or
others changed is not included.

Examples:
  agent diff
  agent diff parser --step 1 | git apply --check --reverse
  /diff 1
"""

from __future__ import annotations

from typing import Annotated

from agentcli.app.undo import newest_changes
from agentcli.checkpoints.snapshots import Change
from agentcli.cli.command import Command, CommandTarget, Report, folder_of
from agentcli.cli.options import number, option
from agentcli.errors import UsageError
from agentcli.ui.text import Line, Span, Style, printable
from agentcli.workspace.names import is_generated


def diff(
    target: CommandTarget,
    step: Annotated[int | None, option("--step N", "Only the Nth last step.", min=1)] = None,
) -> Report:
    folder = folder_of(target)
    kept, span = newest_changes(folder, step)
    if span is None:
        if step is not None:
            raise UsageError(f"session {folder.name} has no {step} steps that changed files")
        return Report(notes=["nothing was changed"], data=[])
    changes = [change for change in kept.changes(*span) if not is_generated(change.path)]
    patch = kept.diff(*span)
    notes = [change_line(change) for change in changes if change.git_description]
    data = list(map(change_as_dict, changes))
    return Report(
        patch_lines(patch),
        notes if patch or notes else ["nothing was changed"],
        data=data,
        text=patch,
        kind="diff",
    )


def patch_lines(patch: str) -> list[Line]:
    """Return the whole patch as coloured lines."""
    styles: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
    lines: list[Line] = []
    for line in printable(patch).splitlines():
        bold = line.startswith(("diff ", "+++", "---"))
        lines.append([Span(line, "bold" if bold else styles.get(line[:1], ""))])
    return lines


def change_as_dict(change: Change) -> dict[str, str]:
    told = {"told": change.git_description} if change.git_description else {}
    return {"path": change.path, "kind": change.kind, **told}


def change_line(change: Change) -> str:
    sign = {"added": "+", "deleted": "-", "modified": "~", "mode": "m"}[change.kind]
    return f"{sign} {printable(change.git_description or change.path, multiline=False)}"


DIFF = Command(diff, "[STEP]", lambda text: {"step": number(text, "/diff 2")} if text else {})
COMMAND = DIFF.in_shell(pager=True)
