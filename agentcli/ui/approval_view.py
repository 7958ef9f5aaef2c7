"""What an action that a person is asked about would do, whole, as lines to show."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

from agentcli.events import Action
from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    FileWriteAction,
    IPythonRunCellAction,
    ToolCallAction,
)
from agentcli.ui.diff import SIGN_STYLES
from agentcli.ui.literal import Text, texts

_HUNK = re.compile(r"@@ -(\d+)")


class ApprovalView(NamedTuple):
    """`kind` fits into "Allow this …?"; `wants` is what goes beyond the sandbox; `words` is what
    the model says about it, which proves nothing."""

    kind: str
    body: list[Text]
    place: str = ""
    wants: tuple[str, ...] = ()
    words: str = ""


def approval_view(action: Action, current: str | None = None) -> ApprovalView:
    """`current` is what the file to be written holds now; None when there is none, or unknown."""
    match action:
        case CmdRunAction():
            return _command(action)
        case IPythonRunCellAction(code=code):
            return ApprovalView("Python code", texts(code))
        case FileWriteAction(path=path, content=content):
            kind = "write" if current is None else "write over a file"
            return ApprovalView(kind, [*texts(path), Text(""), *_diff(current, content)])
        case FileEditAction():
            return ApprovalView("edit", _edit(action, current))
        case ToolCallAction(name=name, raw_arguments=arguments):
            return ApprovalView(f"call of {name}", texts(arguments))
    call = action.tool_call_metadata
    if call is None:
        return ApprovalView("action", texts(action.model_dump_json(exclude_defaults=True)))
    return ApprovalView(f"call of {call.function_name}", texts(call.raw_arguments))


def _command(action: CmdRunAction) -> ApprovalView:
    if action.job is not None:
        return ApprovalView("control of a background job", texts(f"{action.command} {action.job}"))
    kind = "command"
    if action.is_input:
        kind = "input to the running command"
    elif action.background:
        kind = "command in the background"
    wants = []
    if action.restart:
        wants.append("starts the shell anew first")
    if action.network:
        wants.append("reaches the network")
    if action.unsandboxed:
        wants.append("runs outside the sandbox, with all your rights")
    return ApprovalView(kind, texts(action.command), action.cwd or "", tuple(wants), action.reason)


def _edit(action: FileEditAction, current: str | None) -> list[Text]:
    what = action.command.replace("_", " ")
    if action.insert_line is not None:
        what += f" after line {action.insert_line}"
    elif action.replace_all:
        what += " of every occurrence"
    elif action.start is not None:
        what += f" of lines {action.start} to {action.end or 'the end'}"
    head = [*texts(action.path), Text(""), Text(f"{what}:")]
    new = action.new_str if action.new_str is not None else action.content
    if action.command == "create":
        return [*texts(action.path), Text(""), *_diff(current, new or "")]
    if new is None and action.old_str is None:
        return head
    if current is not None and action.old_str and current.count(action.old_str) == 1:
        return [*head, *_diff(current, current.replace(action.old_str, new or ""))]
    return [*head, *_diff(action.old_str, new or "")]


def _diff(old: str | None, new: str) -> Iterator[Text]:
    """Line by line; far from a change, lines that stay are left out, and where is said."""
    if old is None:
        yield from texts(new, "+", SIGN_STYLES["+"])
        return
    if old == new:
        yield Text("nothing changes")
        return
    if not new:
        yield from texts(old, "-", SIGN_STYLES["-"])
        return
    for row in _unified(old, new):
        if hunk := _HUNK.match(row):
            yield Text(f"line {hunk[1]}", "@", "dim")
        else:
            yield Text(row[1:], row[:1], SIGN_STYLES[row[0]])


def _unified(old: str, new: str) -> list[str]:
    rows = list(difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=3))[2:]
    return rows[1:] if rows[:1] and rows[0].startswith(("@@ -1,", "@@ -0,", "@@ -1 ")) else rows
