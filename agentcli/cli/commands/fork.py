"""Continue from an event, in a copy of session and files.

The copy is a new session with a new folder, which holds the files as they were at that event. The
original session and its workspace stay untouched; another process may even be using them. Without
--at, at a terminal, you choose one of your messages to continue from, and may reword it. With
--model, that model goes on with the copy at once, elsewhere from the task if there is no --at.

Examples:
  agent fork                          # choose where from
  agent fork parser --at 5 --dir ../try
  agent fork parser --at 7 -m sonnet  # how another model goes on from there
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from agentcli.agent.replies import ending_of_reply
from agentcli.app.fork import fork as fork_session
from agentcli.cli.options import Json, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import at_terminal, working
from agentcli.cli.user_paths import home, named_folder
from agentcli.errors import UsageError
from agentcli.events.actions import is_user_message
from agentcli.sessions.history import cut_at
from agentcli.sessions.session import read_session
from agentcli.ui.text import printable, say_note


def fork(
    named: SessionOrNewest = None,
    at: Annotated[int | None, option("--at EVENT", "An event's id; else the end.")] = None,
    folder: Annotated[
        Path | None, option("--dir DIR", "For the files: a new folder, or an empty one.")
    ] = None,
    model: Annotated[
        str | None, option("--model, -m NAME", "Let this model go on with the copy.")
    ] = None,
    session: SessionOption = None,
    as_json: Json = False,
) -> int:
    if as_json and model is not None:
        raise UsageError("--json and --model can't be combined")
    target = folder and named_folder(folder, "--dir")
    original = selected_session(named, session)
    message = ""
    if at is None and not as_json and at_terminal():
        at, message = _choose_event(original)
    if model is not None:
        at = _begin_with(model, original, at, message)
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
    if not message and model is None:
        print(f'agent resume {done.session_id} "…"')
        return 0
    from agentcli.cli.running.work import continue_session

    return continue_session(home() / "sessions" / done.session_id, message or None, model)


def _begin_with(model: str, original: Path, at: int | None, message: str) -> int:
    """Return the event from which `model` goes on, by default just before the first reply. Raises
    UsageError if nothing is left to do there, ConfigError if the model can't be used."""
    from agentcli.cli.builders import builder_for_session

    record = read_session(original)
    events = record.events
    if at is None:
        task = next((event.id for event in filter(is_user_message, events)), None)
        if task is None:
            raise UsageError("the session ended before it was given its task")
        at = next((e.id for e in events[task:] if e.reply is not None), len(events)) - 1
    if at >= len(events):
        raise UsageError(f"there is no event {at}: the newest is {len(events) - 1}")
    cut = cut_at(events, at)
    if not message and ending_of_reply(events[: cut + 1], interactive=False) is not None:
        raise UsageError(
            f"nothing was left to do at event {cut}", hint="name an earlier one with --at"
        )
    builder_for_session(record.state, flags={"model.name": model}).prepare()
    return cut


def _choose_event(original: Path) -> tuple[int, str]:
    from agentcli.cli.sessions.choosing import choose_message
    from agentcli.ui.picker import Question

    question = Question("fork from where? ", "forks", "forks and sends this")
    picked = choose_message(read_session(original).events, question, with_end=True)
    return picked.value, picked.message


COMMAND = fork
