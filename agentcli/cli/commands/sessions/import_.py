"""Import a session from elsewhere, as a new one.

It gets a new id. Approvals given in it have no force here, and none of its files is trusted.

Examples:
  agent sessions import parser.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from agentcli.cli.builders import redactor
from agentcli.cli.options import Json, argument
from agentcli.cli.sessions.rows import session_as_dict
from agentcli.cli.user_paths import home
from agentcli.sessions.finder import state_of
from agentcli.sessions.transfer import import_session
from agentcli.ui.text import say_note


def import_sessions(
    path: Annotated[
        Path,
        argument(
            "PATH", "Folder of a session, tar or zip of one, or what export wrote (json, jsonl)."
        ),
    ],
    as_json: Json = False,
) -> None:
    imported = import_session(home(), path, redactor())
    session_id = imported.folder.name
    if as_json:
        facts = session_as_dict(imported.folder, state_of(imported.folder))
        print(json.dumps({**facts, "notes": list(imported.notes)}, indent=2))
        return
    for note in imported.notes:
        say_note(note)
    print(session_id)


COMMAND = import_sessions
