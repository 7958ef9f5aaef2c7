"""memory: write notes that later sessions are shown."""

from __future__ import annotations

from typing import Any, Literal

from agentcli.errors import ToolError
from agentcli.events.actions import MemoryAction
from agentcli.events.observations import MemoryObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult


class Arguments(ToolArguments):
    """Short notes for later sessions, not on this task: facts on the project (memory), or what the
    user wants known in all (user: they are asked). old: a unique part of the note to change."""

    command: Literal["add", "replace", "remove"]
    target: Literal["memory", "user"] = "memory"
    text: str = ""
    old: str = ""


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    notes = ctx.notes
    if notes is None:
        raise ToolError("Notes are switched off.", error_id="notes_off")
    if args.command == "add":
        kept = notes.add(args.target, args.text)
    elif args.command == "replace":
        kept = notes.replace(args.target, args.old, args.text)
    else:
        kept = notes.remove(args.target, args.old or args.text)
    count = len(kept.entries)
    told = f"Kept for later sessions: {count} {'note' if count == 1 else 'notes'}, "
    told += f"{kept.left:,} characters left."
    if kept.backup is not None:
        told += f" The file had been changed meanwhile; as it was: {kept.backup}"
    changed = {"path": str(kept.path), "added": kept.added, "removed": kept.removed}
    return ToolResult(told, data={"target": args.target, "entries": count, **changed})


def _action(text: str, old: str, **given: Any) -> MemoryAction:
    return MemoryAction(text=text or old, **given)


# A write, because a note influences later sessions.
TOOL = Tool(
    "memory", Arguments, Effect.WRITE, run, _action, MemoryObservation, switch="agent.notes"
)
