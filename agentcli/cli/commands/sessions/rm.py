"""Remove sessions and the children they delegated to, for good.

Removes all the given sessions, or none if one of them is in use. Exits 1 when one can't be removed.

Examples:
  agent sessions rm parser --yes
"""

from __future__ import annotations

from typing import Annotated

from agentcli.cli.options import Json, Yes, argument
from agentcli.cli.sessions.removal import remove_sessions
from agentcli.cli.user_paths import home
from agentcli.errors import UsageError
from agentcli.sessions.manage.retention import use_of
from agentcli.sessions.search.finder import SessionTree, find, session_states


def remove(
    sessions: Annotated[list[str], argument("SESSION", "Ids, unique starts of ids, or names.")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    named = {find(home(), session) for session in sessions}
    every = list(session_states(home()))
    tree = SessionTree(every)
    wanted = named | {folder for each in named for folder, _ in tree.descendants(each.name)}
    for folder in sorted(wanted):
        if use := use_of(folder):
            raise UsageError(f"session {folder.name} is {use}", hint="leave it out, or end it")
    found = [(folder, state) for folder, state in every if folder in wanted]
    return remove_sessions(found, yes, as_json)


COMMAND = remove
