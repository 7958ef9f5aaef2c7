"""Send a message to a session that is at work elsewhere.

Without a name, that is the newest session here. It gets the message at the latest when it is
resumed.

Examples:
  agent tell "and the docs"
  agent tell --session parser --steer "not the tests"
"""

from __future__ import annotations

import json
from typing import Annotated

from agentcli.cli.options import Json, SessionOption, SessionOrNewest, argument, option
from agentcli.cli.running import stdin
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.user_paths import home
from agentcli.errors import UsageError
from agentcli.sessions import inbox
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.finder import session_states
from agentcli.sessions.library import store_of


def tell(
    named: SessionOrNewest = None,
    text: Annotated[str | None, argument("TEXT", "What to say; - reads it from stdin.")] = None,
    session: SessionOption = None,
    steer: Annotated[
        bool, option("--steer", "At its next step, not only after this turn.")
    ] = False,
    as_json: Json = False,
) -> None:
    if text is None and named is not None:
        _require_words(named)
        named, text = None, named
    if text is None:
        raise UsageError("there is nothing to tell", hint='e.g. agent tell "run the tests too"')
    folder = selected_session(named, session)
    store = store_of(folder)
    store.check()
    holder = store.holder()
    if holder and not holder.is_here:
        raise UsageError(
            f"session {folder.name} is at work on {holder.host}, so messages must be sent there",
            hint=f"agent tell {folder.name} on that machine",
        )
    message = text
    if text == "-":
        piped = stdin.read_task()
        message = piped.text(piped.encoding() or "utf-8")
    if not message.strip():
        raise UsageError("there is nothing to tell")
    message_id = inbox.put(folder, message, "steer" if steer else "queue")
    if as_json:
        print(json.dumps({"session_id": folder.name, "message_id": message_id}))
        return
    if holder is None:
        # A message to an idle session waits in a file.
        here = "" if isinstance(store, FileStore) else " on this machine"
        when = f"when it is resumed{here}: agent resume {folder.name}"
    else:
        when = "at its next step" if steer else "after this turn"
    print(f"{folder.name} gets this {when}")


def _require_words(text: str) -> None:
    """Raise UsageError if `text` is the name of a session: the message itself was forgotten."""
    for folder, state in session_states(home()):
        if text in (folder.name, state.name):
            raise UsageError(
                f"{text} is a session; what is the message?", hint=f'agent tell {text} "…"'
            )


COMMAND = tell
