"""Show all that an action would do, as lines, for the user who is asked about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from agentcli.events import Action
from agentcli.events.actions import (
    STEP_PARTS,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    ToolCallAction,
)
from agentcli.ui.arguments import argument_rows, raw_argument_rows
from agentcli.ui.diff import change_rows, number_width
from agentcli.ui.unambiguous_text import Text, texts

_EDITS = {
    "str_replace": "replace",
    "insert": "insert",
    "create": "create",
    "undo_edit": "undo the last edit",
    "llm_edit": "rewrite",
}
"""Words for the commands of an edit."""


class ApprovalView(NamedTuple):
    """An action to be shown. `kind` fits into "Allow this …?"; `wants` is what it wants beyond the
    sandbox; `words` is what the model says about it, which proves nothing."""

    kind: str
    body: list[Text]
    place: str = ""
    wants: tuple[str, ...] = ()
    words: str = ""


def approval_view(action: Action, current: str | None = None) -> ApprovalView:
    """Return the view of `action`. `current` is the present content of the file to be written, None
    if there is no such file or its content is unknown."""
    match action:
        case CmdRunAction():
            return _command(action)
        case IPythonRunCellAction(code=code):
            return ApprovalView("Python code", texts(code))
        case BrowseURLAction(url=url):
            return ApprovalView("fetch", texts(url), wants=_other_spelling(url))
        case BrowseInteractiveAction(steps=steps, url=url):
            lines = [" ".join(filter(None, map(step.get, STEP_PARTS))) for step in steps]
            body = [text for line in lines for text in texts(line)]
            return ApprovalView("browsing", body, wants=_other_spelling(url or ""))
        case FileWriteAction(path=path, content=content):
            kind = "write" if current is None else "write over a file"
            return ApprovalView(kind, [*texts(path), Text(""), *_change(current, content)])
        case FileEditAction():
            return ApprovalView("edit", _edit(action, current))
        case ToolCallAction(name=name, raw_arguments=arguments):
            return ApprovalView(f"call of {name}", list(map(Text, raw_argument_rows(arguments))))
        case MCPAction(server=server, name=name, arguments=values):
            kind = f"call of {name}, a tool of the server {server}"
            return ApprovalView(kind, list(map(Text, argument_rows(values))))
    call = action.tool_call_metadata
    if call is None:
        return ApprovalView("action", texts(action.model_dump_json(exclude_defaults=True)))
    rows = raw_argument_rows(call.raw_arguments)
    return ApprovalView(f"call of {call.function_name}", list(map(Text, rows)))


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
        wants.append("restarts the shell first")
    if action.network:
        wants.append("reaches the network")
    if action.unsandboxed:
        wants.append("runs outside the sandbox, with all your rights")
    return ApprovalView(kind, texts(action.command), action.cwd or "", tuple(wants), action.reason)


def _other_spelling(url: str) -> tuple[str, ...]:
    """Return the ASCII form of a host with other letters, which may look like a different host."""
    try:
        host = urlsplit(url).hostname or ""
        known = host.encode("idna").decode()
    except ValueError:
        return ()
    return () if host.isascii() else (f"reaches {known}",)


def _edit(action: FileEditAction, current: str | None) -> list[Text]:
    what = _EDITS[action.command]
    if action.insert_line is not None:
        what += f" after line {action.insert_line}"
    elif action.replace_all:
        what += " every occurrence"
    elif action.start is not None:
        what += f" lines {action.start} to {action.end or 'the end'}"
    head = [*texts(action.path), Text(""), Text(f"{what}:")]
    new = action.new_str if action.new_str is not None else action.content
    if action.command == "create":
        return [*texts(action.path), Text(""), *_change(current, new or "")]
    if new is None and action.old_str is None:
        return head
    after = text_after(action, current, new or "")
    if current is not None and after is not None:
        return [*head, *_change(current, after)]
    rows = change_rows(f"{action.old_str}\n" if action.old_str else "", f"{new}\n" if new else "")
    return [*head, *(Text(row.text, row.sign, row.style) for row in rows)]


def text_after(action: FileEditAction, current: str | None, new: str) -> str | None:
    """Return the whole file as it would be after the edit; None if that is unknown."""
    if current is None:
        return None
    if action.insert_line is not None:
        lines = current.splitlines(keepends=True)
        at = action.insert_line
        added = new if new.endswith("\n") or not new else f"{new}\n"
        return "".join([*lines[:at], added, *lines[at:]]) if at <= len(lines) else None
    if not action.old_str:
        return None
    found = current.count(action.old_str)
    if found == 1 or (found and action.replace_all):
        return current.replace(action.old_str, new)
    return None


def _change(old: str | None, new: str) -> Iterator[Text]:
    """Yield the change as it is shown after it is made: numbered, with few unchanged lines."""
    if old == new:
        yield Text("nothing changes")
        return
    rows = change_rows(old or "", new)
    width = number_width(rows)
    for row in rows:
        yield Text(row.text, row.mark(width), row.style)
