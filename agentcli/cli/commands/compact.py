"""Summarise the older work of a session for its model, to make room in its window.

The newest two steps stay as they are. Nothing is deleted: the session still shows everything, and
the model can recall it. You can say what the summary must keep.

Examples:
  agent compact                       # the newest session here
  agent compact parser --focus "the decisions about the file format"
  agent compact parser --preview
  /compact the names of the failing tests
"""

from __future__ import annotations

from typing import Annotated, Any

from agentcli.app.compact import Compaction, compact_open
from agentcli.app.compact import compact as compact_session
from agentcli.cli.builders import builder_for_session
from agentcli.cli.command import Command, CommandTarget, Report, ShellTarget, folder_of
from agentcli.cli.options import option
from agentcli.sessions.finder import state_of
from agentcli.ui.summary import count, money, quantity
from agentcli.ui.text import Line, Span, printable


def compact(
    target: CommandTarget,
    focus: Annotated[str, option("--focus TEXT", "What the summary must keep.")] = "",
    preview: Annotated[
        bool, option("--preview", "Show the summary, which costs money, but don't apply it.")
    ] = False,
) -> Report:
    folder = folder_of(target)
    lines: list[Line] = []
    notices = []
    if isinstance(target, ShellTarget):
        builder = builder_for_session(state_of(folder))
        done = compact_session(builder, folder, focus, preview=preview)
        if done.action and done.action.summary:
            lines = [[Span(row)] for row in printable(done.action.summary).split("\n")]
    else:
        done = compact_open(target.open_session(), focus)
    if done.action and done.action.summariser_error:
        reason = printable(done.action.summariser_error, multiline=False)
        notices.append(f"summed up without a model: {reason}")
    data = _as_dict(folder.name, done, preview)
    return Report(lines, [_savings(done, preview)], notices, data, indent=None)


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


def _savings(done: Compaction, preview: bool) -> str:
    if done.action is None:
        return "there is nothing to condense: the newest two steps always stay"
    would = "would be " if preview else ""
    return (
        f"{count(len(list(done.action.forgotten_ids())), 'event')} {would}out of the model's "
        f"sight, {quantity(done.tokens_before)} → {quantity(done.tokens_after)} tokens; "
        f"the summary cost {money(done.cost_usd)}"
    )


COMPACT = Command(compact, "[WHAT TO KEEP]", lambda text: {"focus": text})
COMMAND = COMPACT.in_shell(doing="summing up")
