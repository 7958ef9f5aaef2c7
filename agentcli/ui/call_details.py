"""Show in full what was asked of a tool, where its line and its result don't show it."""

from __future__ import annotations

from agentcli.events import Action, Observation
from agentcli.events.actions import (
    AgentDelegateAction,
    CmdRunAction,
    FileEditAction,
    FileWriteAction,
    MemoryAction,
    ToolCallAction,
)
from agentcli.events.observations import FileEditObservation, FileWriteObservation
from agentcli.ui.arguments import raw_argument_rows
from agentcli.ui.diff import is_cut, marked_lines
from agentcli.ui.sanitize import printable
from agentcli.ui.style import Line, Span, wrap


def request_lines(action: Action, observation: Observation, width: int) -> list[Line]:
    """Return the model's reason for a command, the texts of a change whose diff lacks them, and the
    arguments of a call that no tool understood. Prose is broken between words to fit `width`
    columns."""
    match action:
        case CmdRunAction(reason=reason) if reason:
            words = printable(reason.strip(), multiline=False)
            return wrap([Span(f"asked for, in the model's words: {words}", "dim")], width)
        case FileWriteAction(content=content) if not _has_diff(observation):
            return marked_lines(content, "+")
        case FileEditAction() if not _has_diff(observation):
            new = action.new_str if action.new_str is not None else action.content
            return [*marked_lines(action.old_str or "", "-"), *marked_lines(new or "", "+")]
        case MemoryAction(text=text) | AgentDelegateAction(task=text):
            return [[Span(row)] for row in printable(text).split("\n")]
        case ToolCallAction(error=str(), raw_arguments=raw):
            rows = ([Span(printable(row))] for row in raw_argument_rows(raw))
            return [line for row in rows for line in wrap(row, width)]
    return []


def _has_diff(observation: Observation) -> bool:
    changed = FileWriteObservation | FileEditObservation
    return isinstance(observation, changed) and not is_cut(observation.diff)
