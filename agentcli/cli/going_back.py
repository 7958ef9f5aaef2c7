"""`agent undo`, `rewind`, `fork` and `diff`: back to where a session was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentcli.cli.session_common import Json, here, home, tell_cut_off, tidy, working

if TYPE_CHECKING:
    from agentcli.app.undo import WentBack
    from agentcli.checkpoints.snapshots import Change
    from agentcli.sessions.session import SessionRecord

_MOST_SHOWN = 40
"""Changed files at a terminal; a pipe gets all of them."""

Session = Annotated[
    str | None,
    typer.Argument(
        help="Id, unique start of one, or name; the newest here if left out.", metavar="SESSION"
    ),
]


def undo(
    count: Annotated[int, typer.Argument(metavar="N", min=1, help="How many steps.")] = 1,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", metavar="SESSION", help="Not the newest one here."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where somebody else changed the file since.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take back what the last steps did to files and to git.

    Of the last N steps that changed files, or git's branches, index or stash. What the agent did
    not change stays as it is.
    """
    from agentcli.app import undo as back
    from agentcli.sessions.session import Session as Opened

    with Opened.open(_folder(session)) as opened:
        tell_cut_off(opened)
        with working("undoing"):
            done = back.undo(opened, count, force=force)
        _tell(opened.id, done, as_json, "--files ")


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

    Files and the state of git that others changed go back too. Nothing is lost: the way it was
    before can be gone back to like any other event.
    """
    from agentcli.app import undo as back
    from agentcli.errors import UsageError
    from agentcli.sessions.session import Session as Opened
    from agentcli.sessions.session import read_session

    folder = _folder(session)
    if to is None:
        _list_events(read_session(folder), as_json)
        raise UsageError("back to which event?", hint=f"agent rewind {folder.name} --to EVENT")
    both = files == conversation
    with Opened.open(folder) as opened:
        tell_cut_off(opened)
        with working("going back"):
            done = back.rewind(opened, to, files=both or files, conversation=both or conversation)
        flags = "" if both else "--files " if files else "--conversation "
        _tell(opened.id, done, as_json, flags)


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
    from agentcli.app import fork as forks
    from agentcli.errors import UsageError
    from agentcli.ui.sanitize import printable

    try:
        target = folder and folder.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"--dir {folder}: {error}") from error
    original = _folder(session)
    with working("copying"):
        done = forks.fork(home(), original, at, target)
    if as_json:
        told = {"session_id": done.session_id, "event": done.at_event}
        print(json.dumps({**told, "workspace": str(done.workspace), "notes": done.notes}))
        return
    for note in done.notes:
        print(f"agent: {printable(note, multiline=False)}", file=sys.stderr)
    where = printable(str(done.workspace), multiline=False)
    print(f"forked at event {done.at_event}; the files are in {where}", file=sys.stderr)
    print(f'agent resume {done.session_id} "…"')


def diff(
    session: Session = None,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", help="Only the Nth last step.", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """What a session changed in files, as a patch."""
    from agentcli.app.undo import newest_changes
    from agentcli.errors import UsageError
    from agentcli.files.names import is_generated

    folder = _folder(session)
    kept, span = newest_changes(folder, step)
    if step is not None and span is None:
        raise UsageError(f"session {folder.name} has no {step} steps that changed files")
    changes = [c for c in kept.changes(*span) if not is_generated(c.path)] if span else []
    if as_json:
        print(json.dumps(list(map(_change, changes)), indent=2))
    elif span is not None:
        _print_patch(kept.diff(*span))
        for change in changes:
            if change.told:
                print(_line(change), file=sys.stderr)


def _folder(session: str | None) -> Path:
    from agentcli.sessions.search.finder import find, newest

    tidy()
    return newest(home(), here()) if session is None else find(home(), session)


def _tell(session_id: str, done: WentBack, as_json: bool, flags: str = "") -> None:
    """`flags`: with those one comes back from where one went."""
    if as_json:
        print(json.dumps(_as_dict(session_id, done)))
        return
    from agentcli.ui.sanitize import printable

    most = _MOST_SHOWN if sys.stdout.isatty() else len(done.changes)
    for change in done.changes[:most]:
        print(_line(change))
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


def _as_dict(session_id: str, done: WentBack) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "to_event": done.to_event,
        "steps": done.steps,
        "changes": list(map(_change, done.changes)),
        "kept_at": done.kept_at,
        "left_out": done.left_out,
        "held": done.held,
    }


def _change(change: Change) -> dict[str, str]:
    told = {"told": change.told} if change.told else {}
    return {"path": change.path, "kind": change.kind, **told}


def _line(change: Change) -> str:
    from agentcli.ui.sanitize import printable

    sign = {"added": "+", "deleted": "-", "modified": "~", "mode": "m"}[change.kind]
    return f"{sign} {printable(change.told or change.path, multiline=False)}"


def _list_events(record: SessionRecord, as_json: bool) -> None:
    """Where one could go back to: what was said, and the steps."""
    from agentcli.events.actions import MessageAction
    from agentcli.ui.sanitize import printable

    places = [
        event
        for event in record.events
        if isinstance(event, MessageAction) or (event.reply is not None and event.reply.index == 0)
    ]
    if as_json:
        rows = [
            {"event": e.id, "time": e.timestamp.isoformat(), "who": e.source, "text": e.message}
            for e in places
        ]
        print(json.dumps(rows, indent=2))
        return
    for event in places:
        line = printable(event.message, multiline=False)
        print(f"{event.id:>6}  {event.timestamp.astimezone():%H:%M:%S}  {event.source:<11}  {line}")


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
