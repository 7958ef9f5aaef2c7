"""Removal of sessions, for `agent sessions rm` and `prune`."""

from __future__ import annotations

import json
from pathlib import Path

from agentcli.cli.sessions.rows import age, label, session_as_dict
from agentcli.cli.sessions.upkeep import clean_up_interrupted_work
from agentcli.cli.terminal import confirmed
from agentcli.cli.user_paths import home
from agentcli.errors import AgentError
from agentcli.sessions.manage.retention import remove, size_of, updated_at
from agentcli.sessions.state import State
from agentcli.ui.summary import count
from agentcli.ui.text import say_note
from agentcli.workspace.names import size_text


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
                remove(home(), folder)
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
