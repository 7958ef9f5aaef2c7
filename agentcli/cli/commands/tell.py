"""Say something to a session that works elsewhere.

It gets the message at the latest when it is resumed.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from agentcli.cli import stdin
from agentcli.cli.session_common import Json, SessionId, home
from agentcli.errors import UsageError
from agentcli.sessions import inbox
from agentcli.sessions.manage.ownership import require_own
from agentcli.sessions.search.finder import find, in_use_by


def tell(
    session: SessionId,
    text: Annotated[
        str, typer.Argument(help="What to say; - reads it from stdin.", metavar="TEXT")
    ],
    steer: Annotated[
        bool, typer.Option("--steer", help="At its next step, not only after this turn.")
    ] = False,
    as_json: Json = False,
) -> None:
    folder = find(home(), session)
    require_own(folder)
    message = text
    if text == "-":
        piped = stdin.read_task()
        message = piped.text(piped.encoding() or "utf-8")
    if not message.strip():
        raise UsageError("there is nothing to tell")
    message_id = inbox.put(folder, message, "steer" if steer else "queue")
    if as_json:
        print(json.dumps({"session_id": folder.name, "message_id": message_id}))
        return
    if in_use_by(folder) is None:
        when = f"when it is resumed: agent resume {folder.name}"
    else:
        when = "at its next step" if steer else "when it has done what it is at"
    print(f"{folder.name} gets this {when}")


COMMAND = tell
