"""Go back to an event, in the files and the conversation.

Files and the state of git that others changed go back too. Nothing is lost: the way it was
before can be gone back to like any other event.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from agentcli.app.undo import rewind as rewind_session
from agentcli.cli.session_common import Json, tell_cut_off, working
from agentcli.cli.session_selector import Named, SessionOption, selected
from agentcli.cli.undone import tell_undone
from agentcli.errors import UsageError
from agentcli.events.actions import MessageAction
from agentcli.sessions.session import Session, SessionRecord, read_session
from agentcli.ui.sanitize import printable


def rewind(
    named: Named = None,
    to: Annotated[int | None, typer.Option("--to", metavar="EVENT", help="An event's id.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Only the files.")] = False,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="Only the conversation.")
    ] = False,
    session: SessionOption = None,
    as_json: Json = False,
) -> None:
    folder = selected(named, session)
    if to is None:
        _list_events(read_session(folder), as_json)
        raise UsageError("back to which event?", hint=f"agent rewind {folder.name} --to EVENT")
    both = files == conversation
    files, conversation = both or files, both or conversation
    with Session.open(folder) as opened:
        tell_cut_off(opened)
        with working("going back"):
            done = rewind_session(opened, to, files=files, conversation=conversation)
        flags = "" if both else "--files " if files else "--conversation "
        tell_undone(opened.id, done, as_json, flags)


def _list_events(record: SessionRecord, as_json: bool) -> None:
    """Where one could go back to: what was said, and the steps."""
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


COMMAND = rewind
