"""Go back to an event, in the files and the conversation.

Without --to, at a terminal, you choose one of your messages and go back to before it; you can then
send it again in other words. Elsewhere, the events that you can go back to are listed.

Files and the state of git go back even where others changed them. Nothing is lost: you can return
to the state before the rewind like to any other event.

Examples:
  agent rewind                        # choose a message of yours
  agent rewind parser --to 5 --files
"""

from __future__ import annotations

import json
from typing import Annotated

from agentcli.app.undo import rewind as rewind_session
from agentcli.cli.options import Json, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session, warn_unfinished_restore
from agentcli.cli.sessions.undo_report import report_undo
from agentcli.cli.terminal import at_terminal, working
from agentcli.errors import UsageError
from agentcli.events.actions import MessageAction
from agentcli.sessions.session import Session, SessionRecord, read_session
from agentcli.ui.text import printable


def rewind(
    named: SessionOrNewest = None,
    to: Annotated[int | None, option("--to EVENT", "An event's id.")] = None,
    files: Annotated[bool, option("--files", "Only the files.")] = False,
    conversation: Annotated[bool, option("--conversation", "Only the conversation.")] = False,
    session: SessionOption = None,
    as_json: Json = False,
) -> int:
    folder = selected_session(named, session)
    both = files == conversation
    message = ""
    if to is None:
        record = read_session(folder)
        if as_json or not at_terminal():
            _list_events(record, as_json)
            raise UsageError(
                "rewind to which event?", hint=f"agent rewind {folder.name} --to EVENT"
            )
        to, message = _choose_event(record, only_files=files and not both)
    files, conversation = both or files, both or conversation
    with Session.open(folder) as opened:
        warn_unfinished_restore(opened)
        with working("going back"):
            done = rewind_session(opened, to, files=files, conversation=conversation)
        flags = "" if both else "--files " if files else "--conversation "
        report_undo(opened.id, done, as_json, flags)
    if not message:
        return 0
    from agentcli.cli.running.stored_session import continue_session

    return continue_session(folder, message)


def _choose_event(record: SessionRecord, *, only_files: bool) -> tuple[int, str]:
    from agentcli.cli.sessions.choosing import choose_message
    from agentcli.ui.picker import Question

    sending = "" if only_files else "goes back and sends this"
    question = Question("rewind to before which message? ", "goes back", sending)
    picked = choose_message(record.events, question)
    return picked.value, "" if only_files else picked.message


def _list_events(record: SessionRecord, as_json: bool) -> None:
    """List the events to go back to: what was said, and the steps."""
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
