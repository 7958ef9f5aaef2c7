"""Show the model's notes on this project and on you.

They are yours to edit: $EDITOR "$(agent notes --path)".

Examples:
  agent notes
"""

from __future__ import annotations

import json
from typing import Annotated

from agentcli.app.knowledge import notes_on
from agentcli.cli.options import Json, option
from agentcli.cli.user_paths import here, home
from agentcli.knowledge.notes import FILES
from agentcli.system.homes import user_home
from agentcli.system.programs import user_environ
from agentcli.ui.text import say, say_note


def notes(
    only_path: Annotated[
        bool, option("--path", "Only the file of the notes on this project.")
    ] = False,
    as_json: Json = False,
) -> None:
    kept = notes_on(here(), home(), user_home(user_environ()))
    if only_path:
        say(str(kept.path("memory")))
        return
    found = [(kept.path(target), kept.entries(target)) for target in FILES]
    if as_json:
        print(json.dumps([{"path": str(path), "notes": entries} for path, entries in found]))
        return
    for path, entries in found:
        say(f"{path}: {len(entries) or 'no'} {'note' if len(entries) == 1 else 'notes'}")
        for entry in entries:
            say("- " + entry.replace("\n", "\n  "))
    kept.shown()
    for notice in kept.notices:
        say_note(notice)


COMMAND = notes
