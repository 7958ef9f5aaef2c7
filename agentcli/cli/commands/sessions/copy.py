"""Copy sessions to another store: files, or a database.

Their children, the sessions that they delegated to, are copied too. Each session is copied
completely or not at all, then read back and compared. Copying again adds only what is new; nothing
is removed. Exits 1 when one can't be copied.

Examples:
  agent sessions copy --all --to postgresql://me@db.example.org/agent
  agent sessions copy parser --from sqlite:///~/sessions.db --to files
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from agentcli.cli.error_reporting import print_error
from agentcli.cli.options import Json, argument, option
from agentcli.cli.terminal import working
from agentcli.cli.user_paths import home
from agentcli.errors import AgentError, UsageError
from agentcli.sessions import set_store_selector
from agentcli.sessions.finder import SessionTree, find, session_states
from agentcli.sessions.library import library_at, library_of
from agentcli.sessions.transfer import Copied, copy_session
from agentcli.ui.summary import count

_STORE = "files, sqlite:///PATH or postgresql://USER@HOST/NAME"


def copy(
    to: Annotated[str, option("--to STORE", f"{_STORE}.")],
    sessions: Annotated[
        list[str] | None, argument("SESSION", "Ids, unique starts of ids, or names.")
    ] = None,
    everything: Annotated[bool, option("--all, -a", "Every session.")] = False,
    source: Annotated[
        str | None, option("--from STORE", "Not the store that the settings name.")
    ] = None,
    as_json: Json = False,
) -> int:
    if bool(sessions) == everything:
        raise UsageError("which sessions?", hint="name some, or all of them: --all")
    if source is not None:
        set_store_selector(lambda home: source)
    theirs, ours = library_of(home()), library_at(home(), to)
    if theirs.shown == ours.shown:
        raise UsageError(f"the sessions are already in {ours.shown}")
    copied: list[Copied] = []
    failures = 0
    with working("copying"):
        for session_id in _ids_of(sessions):
            try:
                copied.append(copy_session(home(), session_id, theirs, ours))
            except AgentError as error:
                failures += 1
                told = error.message
                told = told if session_id in told else f"session {session_id}: {told}"
                print_error(told, error.hint)
    if as_json:
        rows = [asdict(each) for each in copied]
        print(json.dumps({"to": ours.shown, "sessions": rows, "failed": failures}, indent=2))
    else:
        for each in copied:
            print(f"{each.session_id}  {_outcome(each)}")
        print(f"{count(sum(bool(each.new) for each in copied), 'session')} copied to {ours.shown}")
    return 1 if failures else 0


def _outcome(copied: Copied) -> str:
    if not copied.events:
        return "has no events"
    return count(copied.new, "new event") if copied.new else "already exists"


def _ids_of(sessions: list[str] | None) -> list[str]:
    """Return the ids of the named sessions with their children, or of all sessions."""
    every = list(session_states(home()))
    if not sessions:
        return [folder.name for folder, _ in every]
    tree = SessionTree(every)
    named = [find(home(), session).name for session in sessions]
    below = (folder.name for each in named for folder, _ in tree.descendants(each))
    return list(dict.fromkeys([*named, *below]))


COMMAND = copy
