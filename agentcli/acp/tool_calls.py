"""Describes tool calls to editors: what is done, where, and what came of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp.helpers import image_block, text_block, tool_content, tool_diff_content
from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    ImageContentBlock,
    TerminalToolCallContent,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolKind,
)

from agentcli.events import Action, Observation
from agentcli.events.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    GlobAction,
    IPythonRunCellAction,
    MemoryAction,
    RecallAction,
    SearchAction,
    path_of,
)
from agentcli.events.observations import (
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    SearchObservation,
    UserRejectObservation,
)
from agentcli.events.texts import json_value, well_formed
from agentcli.ui.calls import call_name, call_text, code_of, outcome, reach_of
from agentcli.ui.outputs import GAP, Row, diff_rows
from agentcli.ui.text import plain, printable

Content = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

_LONGEST_TITLE = 300
_TICKS = re.compile(r"`+")
_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.+)", re.DOTALL)
_KINDS: dict[type[Action], ToolKind] = {
    FileReadAction: "read",
    FileWriteAction: "edit",
    FileEditAction: "edit",
    MemoryAction: "edit",
    SearchAction: "search",
    GlobAction: "search",
    RecallAction: "search",
    CmdRunAction: "execute",
    IPythonRunCellAction: "execute",
    BrowseURLAction: "fetch",
    BrowseInteractiveAction: "fetch",
}


def call_id(action_id: int) -> str:
    """Return the id of an action's call. A model may use its own ids more than once."""
    return f"call-{action_id}"


@dataclass(frozen=True)
class ToolCallView:
    """Describes the calls of a session that works in `workspace`."""

    workspace: Path

    def begun(self, action: Action) -> ToolCallStart:
        """Describe a recorded action; whether it may run is not yet decided."""
        return ToolCallStart(
            session_update="tool_call",
            tool_call_id=call_id(action.id),
            title=title(action),
            kind=kind(action),
            status="pending",
            content=list(_asked(action)) or None,
            locations=self.locations(action) or None,
            raw_input=_raw_input(action),
        )

    def ended(self, action: Action, observation: Observation) -> ToolCallProgress:
        failed = has_failed(observation)
        return ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=call_id(action.id),
            status="failed" if failed else "completed",
            content=[*_asked(action), *self._result(action, observation)] or None,
            locations=self._places(action, observation) or None,
            raw_output=_raw_output(observation),
        )

    def locations(self, action: Action) -> list[ToolCallLocation]:
        path = path_of(action)
        if not path:
            return []
        line = action.start if isinstance(action, FileReadAction) else None
        return [ToolCallLocation(path=self._absolute(path), line=line)]

    def change(self, action: Action, rows: Sequence[Row]) -> Iterator[Content]:
        """Yield each part of a change with the lines around it, as old and new text."""
        path = self._absolute(path_of(action) or "")
        part: list[Row] = []
        for row in [*rows, Row(0, GAP, "")]:
            if row.sign != GAP:
                part.append(row)
            elif part:
                old = "\n".join(each.text for each in part if each.sign != "+")
                new = "\n".join(each.text for each in part if each.sign != "-")
                is_new = all(each.sign == "+" for each in part)
                before = None if is_new else well_formed(old)
                yield tool_diff_content(path, well_formed(new), before)
                part = []

    def _places(self, action: Action, observation: Observation) -> list[ToolCallLocation]:
        if not isinstance(observation, FileEditObservation | FileWriteObservation):
            return self.locations(action)
        changed = (row.number for row in diff_rows(observation.diff) if row.sign in ("+", "-"))
        path = self._absolute(path_of(action) or observation.path)
        return [ToolCallLocation(path=path, line=next(changed, None))]

    def _result(self, action: Action, observation: Observation) -> Iterator[Content]:
        match observation:
            case FileEditObservation(diff=diff) | FileWriteObservation(diff=diff):
                yield from self.change(action, diff_rows(diff))
            case ErrorObservation() | UserRejectObservation():
                shown = outcome(observation)
                yield text("\n".join(map(plain, (shown.status, *shown.lines))))
            case (
                CmdOutputObservation()
                | IPythonRunCellObservation()
                | FileReadObservation()
                | SearchObservation()
            ):
                if observation.content.strip():
                    yield fenced(observation.content)
            case _:
                if observation.content.strip():
                    yield text(observation.content)
        for url in getattr(observation, "image_urls", ()):
            if (image := image_of(url)) is not None:
                yield tool_content(image)

    def _absolute(self, path: str) -> str:
        return os.path.normpath(self.workspace / Path(well_formed(path)).expanduser())


def kind(action: Action) -> ToolKind:
    return _KINDS.get(type(action), "other")


def title(action: Action) -> str:
    """Return one line; a command is quoted, as editors take titles for Markdown."""
    code = code_of(action)
    words = code.text if code else call_text(action)
    first, *more = printable(words, strict=True).strip().split("\n")
    first = first if len(first) <= _LONGEST_TITLE else f"{first[:_LONGEST_TITLE]}…"
    if code is None:
        return " ".join(filter(None, (call_name(action), first, "…" * bool(more))))
    language = "" if code.language == "bash" else f"{code.language}: "
    reach = reach_of(action)
    background = " in the background" if getattr(action, "background", False) else ""
    return f"{language}{quoted(first)}{' …' * bool(more)}{background}{f' ({reach})' * bool(reach)}"


def has_failed(observation: Observation) -> bool:
    if isinstance(observation, ErrorObservation | UserRejectObservation):
        return True
    if isinstance(observation, CmdOutputObservation):
        return bool(observation.metadata.exit_code) or observation.metadata.timed_out
    return bool(getattr(observation, "error", False))


def progress(
    action_id: int, content: Sequence[Content] | None = None, status: ToolCallStatus | None = None
) -> ToolCallProgress:
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call_id(action_id),
        status=status,
        content=list(content) if content is not None else None,
    )


def text(words: str) -> Content:
    return tool_content(text_block(printable(words)))


def fenced(words: str, language: str = "") -> Content:
    """Return plain text between fences that do not occur in it."""
    shown = printable(words).strip("\n")
    fence = "`" * max(3, 1 + _longest_ticks(shown))
    return tool_content(text_block(f"{fence}{language}\n{shown}\n{fence}"))


def quoted(words: str) -> str:
    ticks = "`" * (1 + _longest_ticks(words))
    space = " " * (words.startswith("`") or words.endswith("`"))
    return f"{ticks}{space}{words}{space}{ticks}"


def image_of(url: str) -> ImageContentBlock | None:
    """Return the image of a data: URL; None for any other URL."""
    found = _DATA_URL.fullmatch(url)
    return image_block(found[2], found[1]) if found else None


def _longest_ticks(words: str) -> int:
    return max(map(len, _TICKS.findall(words)), default=0)


def _asked(action: Action) -> Iterator[Content]:
    """Yield code that is too long for the title."""
    code = code_of(action)
    if code is not None and ("\n" in code.text.strip() or len(code.text) > _LONGEST_TITLE):
        yield fenced(code.text, code.language)


def _raw_input(action: Action) -> Any:
    call = action.tool_call_metadata
    if call is None:
        return None
    return json_value(call.raw_arguments or "{}", well_formed(call.raw_arguments))


def _raw_output(observation: Observation) -> Any:
    if not isinstance(observation, CmdOutputObservation):
        return None
    metadata = observation.metadata
    return {"exit_code": metadata.exit_code, "duration_s": round(metadata.duration_s, 3)}
