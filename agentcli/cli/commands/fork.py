"""Go on from an event in a copy of session and files.

The copy is a new session, with a new folder that holds the files as they were. The session
itself and its workspace stay untouched; another process may be using them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentcli.app.fork import fork as fork_session
from agentcli.cli.session_common import Json, home, working
from agentcli.cli.session_selector import Named, SessionOption, selected
from agentcli.errors import UsageError
from agentcli.ui.sanitize import printable


def fork(
    named: Named = None,
    at: Annotated[
        int | None, typer.Option("--at", metavar="EVENT", help="An event's id; else the end.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="For the files: a new folder, or an empty one."),
    ] = None,
    session: SessionOption = None,
    as_json: Json = False,
) -> None:
    try:
        target = folder and folder.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"--dir {folder}: {error}") from error
    original = selected(named, session)
    with working("copying"):
        done = fork_session(home(), original, at, target)
    if as_json:
        told = {"session_id": done.session_id, "event": done.at_event}
        print(json.dumps({**told, "workspace": str(done.workspace), "notes": done.notes}))
        return
    for note in done.notes:
        print(f"agent: {printable(note, multiline=False)}", file=sys.stderr)
    where = printable(str(done.workspace), multiline=False)
    print(f"forked at event {done.at_event}; the files are in {where}", file=sys.stderr)
    print(f'agent resume {done.session_id} "…"')


COMMAND = fork
