"""`agent undo`, `rewind`, `fork` and `diff`: back to where a session was."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentcli.cli.session_common import Json, here, home

if TYPE_CHECKING:
    from agentcli.rewinding import WentBack
    from agentcli.sessions.session import SessionRecord

Session = Annotated[
    str | None,
    typer.Argument(help="Id, unique start of one, or name; the newest here if left out."),
]


def undo(
    count: Annotated[int, typer.Argument(metavar="[N]", min=1, help="How many steps.")] = 1,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", metavar="SESSION", help="Not the newest one here."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where somebody else changed the file since.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take back what the last steps did to files.

    Of the last N steps that changed files. Files that the agent did not change stay as they are,
    git's index and history too.
    """
    from agentcli import rewinding
    from agentcli.sessions.session import Session as Opened

    with Opened.open(_folder(session)) as opened:
        done = rewinding.undo(opened, count, force=force)
        _tell(opened.id, done, as_json)


def rewind(
    session: Session = None,
    to: Annotated[int | None, typer.Option("--to", metavar="EVENT", help="An event's id.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Only the files.")] = False,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="Only the conversation.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Go back to an event, in the files and the conversation.

    Nothing is lost: the way it was before can be gone back to like any other event.
    """
    from agentcli import rewinding
    from agentcli.errors import UsageError
    from agentcli.sessions.session import Session as Opened
    from agentcli.sessions.session import read_session

    folder = _folder(session)
    if to is None:
        _list_events(read_session(folder))
        raise UsageError("back to which event?", hint=f"agent rewind {folder.name} --to EVENT")
    both = files == conversation
    with Opened.open(folder) as opened:
        done = rewinding.rewind(opened, to, files=both or files, conversation=both or conversation)
        _tell(opened.id, done, as_json)


def fork(
    session: Session = None,
    at: Annotated[
        int | None, typer.Option("--at", metavar="EVENT", help="An event's id; else the end.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="For the files: a new folder, or an empty one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Go on from an event in a copy of session and files.

    The copy is a new session, with a new folder that holds the files as they were. The session
    itself and its workspace stay untouched; another process may be using them.
    """
    from agentcli import rewinding
    from agentcli.sessions.finder import new_folder, state_of

    original = _folder(session)
    copy = new_folder(home())
    beside = Path(state_of(original).workspace)
    target = folder or beside.with_name(f"{beside.name}-fork-{copy.name[-4:]}")
    whole = os.path.expanduser(target)  # noqa: PTH111 (Path's raises for users there are not)
    done = rewinding.fork(original, copy, at, Path(whole).absolute())
    if as_json:
        told = {"session_id": done.session_id, "event": done.at_event}
        print(json.dumps({**told, "workspace": str(done.workspace), "notes": done.notes}))
        return
    for note in done.notes:
        print(f"agent: {note}", file=sys.stderr)
    print(f"forked at event {done.at_event}; the files are in {done.workspace}", file=sys.stderr)
    print(f'agent resume {done.session_id} "…"')


def diff(
    session: Session = None,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", help="Only the Nth last step.", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """What a session changed in files, as a patch."""
    from agentcli.errors import UsageError
    from agentcli.rewinding import newest_changes
    from agentcli.runtime.names import is_generated

    folder = _folder(session)
    kept, span = newest_changes(folder, step)
    if step is not None and span is None:
        raise UsageError(f"session {folder.name} has no {step} steps that changed files")
    if as_json:
        changes = kept.changes(*span) if span else []
        shown = [c for c in changes if not is_generated(c.path)]
        print(json.dumps([{"path": c.path, "kind": c.kind} for c in shown], indent=2))
    elif span is not None:
        _print_patch(kept.diff(*span))


def _folder(session: str | None) -> Path:
    from agentcli.sessions.finder import find, newest

    return newest(home(), here()) if session is None else find(home(), session)


def _tell(session_id: str, done: WentBack, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_as_dict(session_id, done)))
        return
    from agentcli.ui.sanitize import printable

    signs = {"added": "+", "deleted": "-", "modified": "~", "mode": "m"}
    for change in done.changes:
        print(f"{signs[change.kind]} {printable(change.path, multiline=False)}")
    back = f"agent rewind {session_id} --files --to {done.kept_at}"
    to_undo = f"; to take that back: {back}" if done.kept_at is not None else ""
    print(f"now as at event {done.to_event}{to_undo}", file=sys.stderr)


def _as_dict(session_id: str, done: WentBack) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "to_event": done.to_event,
        "steps": done.steps,
        "changes": [{"path": change.path, "kind": change.kind} for change in done.changes],
        "kept_at": done.kept_at,
    }


def _list_events(record: SessionRecord) -> None:
    """Where one could go back to: what was said, and the steps."""
    from agentcli.events.actions import MessageAction
    from agentcli.ui.sanitize import printable

    for event in record.events:
        first_of_step = event.reply is not None and event.reply.index == 0
        if first_of_step or isinstance(event, MessageAction):
            who = event.source.value
            line = printable(event.message, multiline=False)
            print(f"{event.id:>6}  {event.timestamp.astimezone():%H:%M:%S}  {who:<11}  {line}")


def _print_patch(patch: str) -> None:
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(patch.encode("utf-8", "surrogateescape"))
        return
    from rich.console import Console
    from rich.text import Text

    from agentcli.ui.sanitize import printable

    console = Console(highlight=False)
    for line in printable(patch).splitlines():
        bold = line.startswith(("diff ", "+++", "---"))
        style = "bold" if bold else {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        console.print(Text(line, style), soft_wrap=True)
