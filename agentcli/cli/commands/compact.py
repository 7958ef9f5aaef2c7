"""Summarise the older work of a session for its model.

The newest two steps stay as they are. Nothing is deleted: the session still shows everything, and
the model can recall it.

Examples:
  agent compact                       # the newest session here
  agent compact parser --focus "the decisions about the file format"
  agent compact parser --preview
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from agentcli.app.compact import Compaction
from agentcli.app.compact import compact as compact_session
from agentcli.cli.builders import builder_for_session
from agentcli.cli.options import Json, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import working
from agentcli.sessions.finder import state_of
from agentcli.ui.summary import count, money, quantity
from agentcli.ui.text import printable, say_note


def compact(
    named: SessionOrNewest = None,
    focus: Annotated[str, option("--focus TEXT", "What the summary must keep.")] = "",
    preview: Annotated[
        bool, option("--preview", "Show the summary, which costs money, but don't apply it.")
    ] = False,
    session: SessionOption = None,
    as_json: Json = False,
) -> None:
    folder = selected_session(named, session)
    builder = builder_for_session(state_of(folder))
    with working("summing up"):
        done = compact_session(builder, folder, focus, preview=preview)
    if as_json:
        print(json.dumps(_as_dict(folder.name, done, preview)))
    else:
        _tell(done, preview)


def _as_dict(session_id: str, done: Compaction, preview: bool) -> dict[str, Any]:
    action = done.action
    return {
        "session_id": session_id,
        "preview": preview,
        "condensed": action is not None,
        "forgotten_event_ids": list(action.forgotten_ids()) if action else [],
        "masked_event_ids": list(action.masked_event_ids) if action else [],
        "summary": action.summary if action else None,
        "summariser_error": action.summariser_error if action else "",
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "cost_usd": done.cost_usd,
    }


def _tell(done: Compaction, preview: bool) -> None:
    action = done.action
    if action is not None and action.summary:
        print(printable(action.summary))
    if action is not None and action.summariser_error:
        reason = printable(action.summariser_error, multiline=False)
        say_note(f"summed up without a model: {reason}")
    print(savings_text(done, preview=preview), file=sys.stderr)


def savings_text(done: Compaction, *, preview: bool = False) -> str:
    if done.action is None:
        return "there is nothing to condense: the newest two steps always stay"
    would = "would be " if preview else ""
    return (
        f"{count(len(list(done.action.forgotten_ids())), 'event')} {would}out of the model's "
        f"sight, {quantity(done.tokens_before)} → {quantity(done.tokens_after)} tokens; "
        f"the summary cost {money(done.cost_usd)}"
    )


COMMAND = compact
