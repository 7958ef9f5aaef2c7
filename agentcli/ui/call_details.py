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
from agentcli.ui.diff import SIGN_STYLES, is_cut
from agentcli.ui.sanitize import printable
from agentcli.ui.style import Line, Span, wrap


def request_lines(action: Action, observation: Observation, width: int) -> list[Line]:
    """Return the model's reason for a command, the texts of a change whose diff lacks them, and the
    arguments of a call that no tool understood. Prose is broken between words to fit `width`
    columns."""
    match action:
        case CmdRunAction(reason=reason) if reason:
            told = f"asked for, in the model's words: {_one_line(reason)}"
            return wrap([Span(told, "dim")], width)
        case FileWriteAction(content=content) if not _has_diff(observation):
            return _marked(content, "+")
        case FileEditAction() if not _has_diff(observation):
            new = action.new_str if action.new_str is not None else action.content
            return [*_marked(action.old_str or "", "-"), *_marked(new or "", "+")]
        case MemoryAction(text=text) | AgentDelegateAction(task=text):
            return [[Span(row)] for row in printable(text).split("\n")]
        case ToolCallAction(error=str(), raw_arguments=raw):
            rows = ([Span(printable(row))] for row in raw_argument_rows(raw))
            return [line for row in rows for line in wrap(row, width)]
    return []


def _has_diff(observation: Observation) -> bool:
    if not isinstance(observation, FileWriteObservation | FileEditObservation):
        return False
    return not is_cut(observation.diff)


def _marked(text: str, sign: str) -> list[Line]:
    rows = printable(text).removesuffix("\n").split("\n") if text else []
    return [[Span(f"{sign} {row}", SIGN_STYLES[sign])] for row in rows]


def _one_line(text: str) -> str:
    return printable(text.strip(), multiline=False)
