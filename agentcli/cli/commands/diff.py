"""Show what a session changed in files, as a patch.

Examples:
  agent diff
  agent diff parser --step 1 | git apply --check --reverse
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

from agentcli.app.undo import newest_changes
from agentcli.cli.options import Json, NoPager, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.sessions.undo_report import change_as_dict, change_line
from agentcli.cli.terminal import paged
from agentcli.errors import UsageError
from agentcli.ui.screen import Screen
from agentcli.ui.text import Line, Span, Style, printable
from agentcli.workspace.names import is_generated


def diff(
    named: SessionOrNewest = None,
    step: Annotated[int | None, option("--step N", "Only the Nth last step.", min=1)] = None,
    session: SessionOption = None,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> None:
    folder = selected_session(named, session)
    kept, span = newest_changes(folder, step)
    if step is not None and span is None:
        raise UsageError(f"session {folder.name} has no {step} steps that changed files")
    changes = [c for c in kept.changes(*span) if not is_generated(c.path)] if span else []
    if as_json:
        print(json.dumps(list(map(change_as_dict, changes)), indent=2))
    elif span is not None:
        with paged(no_pager):
            print_patch(kept.diff(*span))
        for change in changes:
            if change.git_description:
                print(change_line(change), file=sys.stderr)


def print_patch(patch: str) -> None:
    """Print the patch: with colours for people at a terminal, unchanged for programs."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(patch.encode("utf-8", "surrogateescape"))
        return
    screen = Screen(sys.stdout, live=False)
    screen.put("note", patch_lines(patch))
    screen.flush()


def patch_lines(patch: str) -> list[Line]:
    """Return the whole patch as coloured lines."""
    styles: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
    lines: list[Line] = []
    for line in printable(patch).splitlines():
        bold = line.startswith(("diff ", "+++", "---"))
        lines.append([Span(line, "bold" if bold else styles.get(line[:1], ""))])
    return lines


COMMAND = diff
