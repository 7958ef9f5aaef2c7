"""Remove sessions and the children they delegated to, for good.

Removes all the given sessions, or none if one of them is in use. Exits 1 when one can't be removed.

Examples:
  agent sessions rm parser --yes
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from agentcli.cli.options import Json, Yes, argument
from agentcli.cli.sessions.rows import age, label, session_as_dict
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.terminal import confirmed
from agentcli.cli.user_paths import home
from agentcli.errors import AgentError, UsageError
from agentcli.sessions.finder import SessionTree, find, session_states
from agentcli.sessions.state import State
from agentcli.sessions.upkeep import remove as remove_session
from agentcli.sessions.upkeep import size_of, updated_at, use_of
from agentcli.ui.summary import count
from agentcli.ui.text import say_note
from agentcli.workspace.names import size_text


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


def remove_sessions(
    found: list[tuple[Path, State]], yes: bool, as_json: bool, *, dry_run: bool = False
) -> int:
    """List the sessions and, if the user agrees, remove them. Return the exit code."""
    sizes = {folder: size_of(folder) for folder, _ in found}
    if not as_json:
        for folder, state in found:
            when = age(updated_at(folder, state))
            print(f"{folder.name}  {when:<11}  {size_text(sizes[folder]):>9}  {label(state)}")
        print(f"{count(len(found), 'session')}, {size_text(sum(sizes.values()))}")
    gone = found if dry_run else []
    failures = 0
    if found and not dry_run and confirmed(f"remove {count(len(found), 'session')}?", yes):
        for folder, state in found:
            try:
                remove_session(home(), folder)
            except AgentError as error:
                failures += 1
                say_note(error.message)
            else:
                gone.append((folder, state))
        clean_up_interrupted_work()
    freed = sum(sizes[folder] for folder, _ in gone)
    if as_json:
        told = [
            {**session_as_dict(folder, state), "bytes": sizes[folder]} for folder, state in gone
        ]
        print(json.dumps({"dry_run": dry_run, "sessions": told, "bytes": freed}, indent=2))
    elif gone and not dry_run:
        print(f"removed {count(len(gone), 'session')}, {size_text(freed)} freed")
    elif found and not dry_run:
        say_note("nothing was removed")
    return 1 if failures else 0


COMMAND = remove
