"""Go back to an event, in the files and the conversation.

Without an event, at a terminal, you choose one of your messages and go back to before it; you can
then send it again in other words. Elsewhere, the events that you can go back to are listed. In a
conversation, Esc Esc on an empty line does the same.

Files and the state of git go back even where others changed them. Nothing is lost: you can return
to the state before the rewind like to any other event.

Examples:
  agent rewind                        # choose a message of yours
  agent rewind parser --to 5 --files
  /rewind 14 files
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from agentcli.app.undo import rewind as rewind_session
from agentcli.cli.command import Command, CommandTarget, Report, ShellTarget
from agentcli.cli.commands.undo import restored
from agentcli.cli.options import Json, SessionOption, SessionOrNewest, number, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import at_terminal, working
from agentcli.errors import UsageError
from agentcli.events.actions import MessageAction
from agentcli.sessions.session import SessionRecord
from agentcli.ui.text import printable

PARTS = {
    "": "conversation and files",
    "conversation": "only the conversation: the files stay as they are now",
    "files": "only the files: what was said stays",
}
_EXAMPLE = "/rewind 14 files"


def rewind(target: CommandTarget, event: int, part: str = "") -> Report:
    """Go back to `event`, in one of PARTS."""
    with target.session_at_rest() as session:
        done = rewind_session(
            session, event, files=part != "conversation", conversation=part != "files"
        )
    return restored(target, session.id, done, part)


def _parsed(text: str) -> dict[str, Any]:
    event, *parts = text.split() or [""]
    if (part := " ".join(parts)) not in PARTS:
        raise UsageError(f"{part!r} is not a part to rewind: files or conversation", hint=_EXAMPLE)
    return {"event": number(event, _EXAMPLE), "part": part}


REWIND = Command(rewind, "[EVENT [files|conversation]]", _parsed)


def in_shell(
    named: SessionOrNewest = None,
    to: Annotated[int | None, option("--to EVENT", "An event's id.")] = None,
    files: Annotated[bool, option("--files", "Only the files.")] = False,
    conversation: Annotated[bool, option("--conversation", "Only the conversation.")] = False,
    session: SessionOption = None,
    as_json: Json = False,
) -> int:
    target = ShellTarget(selected_session(named, session))
    part = "" if files == conversation else "files" if files else "conversation"
    message = ""
    if to is None:
        if as_json or not at_terminal():
            _list_events(target.session, as_json)
            raise UsageError(
                "rewind to which event?", hint=f"agent rewind {target.folder.name} --to EVENT"
            )
        to, message = _choose_event(target.session, only_files=part == "files")
    with working("going back"):
        report = rewind(target, to, part)
    report.show(as_json=as_json)
    if not message:
        return 0
    from agentcli.cli.running.work import continue_session

    return continue_session(target.folder, message)


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


COMMAND = in_shell
