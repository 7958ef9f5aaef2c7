"""Continue from an event, in a copy of session and files.

The copy is a new session with a new folder, which holds the files as they were at that event. The
original session and its workspace stay untouched; another process may even be using them. Without
--at, at a terminal, you choose one of your messages to continue from, and may reword it.

Examples:
  agent fork                          # choose where from
  agent fork parser --at 5 --dir ../try
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from agentcli.app.fork import fork as fork_session
from agentcli.cli.options import Json, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import at_terminal, working
from agentcli.cli.user_paths import home, named_folder
from agentcli.sessions.session import read_session
from agentcli.ui.text import printable, say_note


def fork(
    named: SessionOrNewest = None,
    at: Annotated[int | None, option("--at EVENT", "An event's id; else the end.")] = None,
    folder: Annotated[
        Path | None, option("--dir DIR", "For the files: a new folder, or an empty one.")
    ] = None,
    session: SessionOption = None,
    as_json: Json = False,
) -> int:
    target = folder and named_folder(folder, "--dir")
    original = selected_session(named, session)
    message = ""
    if at is None and not as_json and at_terminal():
        at, message = _choose_event(original)
    with working("copying"):
        done = fork_session(home(), original, at, target)
    if as_json:
        told = {"session_id": done.session_id, "event": done.at_event}
        print(json.dumps({**told, "workspace": str(done.workspace), "notes": done.notes}))
        return 0
    for note in done.notes:
        say_note(printable(note, multiline=False))
    where = printable(str(done.workspace), multiline=False)
    print(f"forked at event {done.at_event}; the files are in {where}", file=sys.stderr)
    if not message:
        print(f'agent resume {done.session_id} "…"')
        return 0
    from agentcli.cli.running.stored_session import continue_session

    return continue_session(home() / "sessions" / done.session_id, message)


def _choose_event(original: Path) -> tuple[int, str]:
    from agentcli.cli.sessions.choosing import choose_message
    from agentcli.ui.picker import Question

    question = Question("fork from where? ", "forks", "forks and sends this")
    picked = choose_message(read_session(original).events, question, with_end=True)
    return picked.value, picked.message


COMMAND = fork
