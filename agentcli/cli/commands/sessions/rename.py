"""Give a session a name.

Every command that takes the id of a session also takes its name.

Examples:
  agent sessions rename parser reader
"""

from __future__ import annotations

import json
from typing import Annotated

from agentcli.cli.options import Json, OneSession, argument
from agentcli.cli.sessions.rows import session_as_dict
from agentcli.cli.user_paths import home
from agentcli.events import Source
from agentcli.events.actions import RenameAction
from agentcli.sessions import session as stored
from agentcli.sessions.finder import find, free_name


def rename(
    session: OneSession,
    name: Annotated[str, argument("NAME", "The new name.")],
    as_json: Json = False,
) -> None:
    folder = find(home(), session)
    name = free_name(home(), name, folder)
    with stored.Session.open(folder) as opened:
        opened.emit(RenameAction(name=name, source=Source.USER))
        state = opened.state
    if as_json:
        print(json.dumps(session_as_dict(folder, state), indent=2))
    else:
        print(f"{folder.name} is now {name}")


COMMAND = rename
