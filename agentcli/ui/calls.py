"""Tool calls in words: what is done, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcli.events import Action, Observation
from agentcli.events.actions import (
    AgentFinishAction,
    AgentThinkAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    GlobAction,
    IPythonRunCellAction,
    MemoryAction,
    RecallAction,
    SearchAction,
    TaskTrackingAction,
    ToolCallAction,
    tool_name,
)
from agentcli.events.observations import (
    BrowserOutputObservation,
    CmdMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MemoryObservation,
    RecallObservation,
    SearchObservation,
    TaskTrackingObservation,
    ToolResultObservation,
    UserRejectObservation,
)
from agentcli.ui.diff import diff_counts, diff_lines
from agentcli.ui.sanitize import printable, settle
from agentcli.ui.style import Line, Span, Style, cells, clip, plain
from agentcli.ui.summary import count, duration

_EXIT_LINE = re.compile(r"(?:\A|\n)\[exit \d+(?:, no output)?(?:; (now in [^\]\n]+))?\](?=\n\[|\Z)")
"""What the model is told at the end of an output; people read it on the line of the call."""

_BOXES: dict[str, tuple[str, Style]] = {
    "done": ("[x]", "dim"),
    "in_progress": ("[>]", "bold"),
    "cancelled": ("[-]", "dim"),
}
_DIFF_LIMIT = 40
_NEW_FILE_LIMIT = 12
_VERBOSE_LIMIT = 200


@dataclass(slots=True)
class Outcome:
    """How a call ended: `status` stands on the line of the call, `lines` under it; `whole`: none of
    them may be cut or left out."""

    status: list[Span] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    failed: bool = False
    whole: bool = False


def call_name(action: Action) -> str:
    call = action.tool_call_metadata
    return printable(call.function_name if call else tool_name(action), multiline=False)


def call_text(action: Action) -> str:
    """What the call is about, whole: it may have several lines, and paths are as given."""
    match action:
        case CmdRunAction(restart=True):
            return "restart the shell"
        case CmdRunAction(command=command, is_input=is_input, background=background):
            return ("< " if is_input else "$ ") + command + (" &" if background else "")
        case IPythonRunCellAction(code=text):
            return text
        case FileReadAction(path=path, start=start, end=end):
            return f"{path}:{start}-{end or ''}" if start != 1 or end else path
        case FileWriteAction(path=path) | FileEditAction(path=path, command="str_replace"):
            return path
        case FileEditAction(path=path, command=command):
            return f"{path} ({command.replace('_', ' ')})"
        case SearchAction(pattern=pattern, path=path) | GlobAction(pattern=pattern, path=path):
            shown = repr(pattern) if isinstance(action, SearchAction) else pattern
            return shown if path in (".", "") else f"{shown} in {path}"
        case TaskTrackingAction(task_list=items) if items:
            done = sum(item.get("status") == "done" for item in items)
            return f"{done}/{len(items)} done"
    return _rarer_call_text(action)


def _rarer_call_text(action: Action) -> str:
    match action:
        case ToolCallAction(raw_arguments=raw):
            return raw
        case MemoryAction(command=command, target=target):
            return f"{command} {'on the user' if target == 'user' else 'on this project'}"
        case RecallAction(recall_type=kind, query=query):
            return f"{kind.replace('_', ' ')} {query}".rstrip()
        case AgentThinkAction() | AgentFinishAction() | TaskTrackingAction():
            return ""
    return action.message


def call_line(icon: Span, action: Action, text: str, end: Line, width: int) -> Line:
    """`• bash    $ pytest -q · exit 0`: the text of the call gives way, never `end`."""
    head = [icon, Span(f" {call_name(action):<6}  ", "bold")]
    room = width - cells(plain([*head, *end]))
    return [*head, *clip([Span(text)], max(room, 10)), *end]


def call_lines(action: Action) -> list[Line]:
    """What belongs under the call whatever comes of it: thoughts and task lists."""
    match action:
        case AgentThinkAction(thought=thought):
            return [[Span(line, "dim")] for line in printable(thought.strip()).split("\n")]
        case TaskTrackingAction(task_list=items):
            return [_task(item) for item in items]
    return []


def _task(item: dict[str, str]) -> Line:
    box, style = _BOXES.get(item.get("status", ""), ("[ ]", ""))
    return [Span(f"{box} {printable(item.get('title', ''), multiline=False)}", style)]


def outcome(observation: Observation, verbose: int = 0) -> Outcome:
    match observation:
        case CmdOutputObservation(metadata=metadata):
            return _command_outcome(observation.content, metadata, verbose)
        case IPythonRunCellObservation(error=failed):
            status = [Span("error", "red")] if failed else []
            return Outcome(status, tail(observation.content, 8 if failed else 3, verbose))
        case FileReadObservation():
            return Outcome([Span(_lines_read(observation), "dim")])
        case FileWriteObservation(prev_exist=existed) | FileEditObservation(prev_exist=existed):
            return _change_outcome(observation.diff, existed, verbose)
        case SearchObservation(matches=matches, truncated=cut):
            status = [Span(count(matches, "match") + (", cut" if cut else ""), "dim")]
            return Outcome(status, tail(observation.content, 0, verbose))
        case ErrorObservation() | UserRejectObservation():
            return _failure(observation)
        case TaskTrackingObservation() | RecallObservation():
            return Outcome(lines=tail(observation.content, 0, verbose))
    return _other_outcome(observation, verbose)


def _other_outcome(observation: Observation, verbose: int) -> Outcome:
    failed = bool(getattr(observation, "error", False))
    match observation:
        case BrowserOutputObservation(status_code=int() as code):
            status = [Span(f"status {code}", "red" if failed else "dim")]
            return Outcome(status, failed=failed)
        case MemoryObservation(path=path):
            return Outcome([Span(path, "dim")], _changed_note(observation), whole=True)
        case ToolResultObservation() if failed:
            return _failure(observation)
        case ToolResultObservation():
            return Outcome(lines=tail(observation.content, 3, verbose))
    return Outcome()


def _command_outcome(content: str, metadata: CmdMetadata, verbose: int) -> Outcome:
    code, took = metadata.exit_code, duration(metadata.duration_s)
    if code is not None:
        parts = [Span(f"exit {code}", "dim" if code == 0 else "red"), Span(f" · {took}", "dim")]
    elif metadata.waiting_for_input:
        parts = [Span("waits for input", "yellow")]
    elif metadata.exit_unknown:
        parts = [Span("ended, exit code unknown", "yellow")]
    elif metadata.job_id:
        parts = [Span(f"in the background as {printable(metadata.job_id)}", "dim")]
    else:
        parts = [Span(f"still running after {took}", "yellow")]
    if metadata.timed_out:
        parts.append(Span(" · timed out", "yellow"))
    if told := _EXIT_LINE.search(content):
        content = content[: told.start()] + content[told.end() :]
        parts += [Span(f" · {printable(told[1])}", "dim")] if told[1] else []
    if code is not None and not content.strip():
        parts.append(Span(" · no output", "dim"))
    return Outcome(parts, tail(content, 3 if code == 0 else 8, verbose))


def _change_outcome(diff: str, existed: bool, verbose: int) -> Outcome:
    added, removed = diff_counts(diff)
    if not existed:
        status = [Span(f"new, {count(added, 'line')}", "dim")]
    elif added or removed:
        status = [Span(f"+{added} -{removed}", "dim")]
    else:
        status = [Span("unchanged", "dim")]
    limit = _DIFF_LIMIT if existed else _NEW_FILE_LIMIT
    return Outcome(status, diff_lines(diff, _VERBOSE_LIMIT if verbose else limit))


def _changed_note(observation: MemoryObservation) -> list[Line]:
    """Whole: later sessions are told it, so people must be able to object."""
    signs: tuple[tuple[str, str, Style], ...] = (
        ("-", observation.removed, "red"),
        ("+", observation.added, "green"),
    )
    return [
        [Span(f"{sign} {row}", style)]
        for sign, text, style in signs
        for row in (printable(text).split("\n") if text else ())
    ]


def _failure(observation: Observation) -> Outcome:
    rejected = isinstance(observation, UserRejectObservation)
    text = observation.reason if isinstance(observation, UserRejectObservation) else ""
    first, *rest = printable((text or observation.content).strip()).split("\n")
    word = "not allowed" if rejected else "error"
    status = [Span(f"{word}: {first}" if first else word, "red")]
    return Outcome(status, _bounded([[Span(line, "red")] for line in rest], 6), failed=True)


def _lines_read(observation: FileReadObservation) -> str:
    total = observation.lines_total
    if observation.image_urls:
        return count(len(observation.image_urls), "image")
    if total is None:
        return ""
    if observation.lines_shown is None:
        return count(total, "line")
    first, last = observation.lines_shown
    shown = last - first + 1
    return count(total, "line") if shown >= total else f"{shown:,} of {count(total, 'line')}"


def tail(text: str, limit: int, verbose: int = 0) -> list[Line]:
    """The last lines of some output, after a count of those before them."""
    limit = _VERBOSE_LIMIT if verbose else limit
    if not limit or not text.strip():
        return []
    rows = settle(text).strip("\n").rstrip().split("\n")
    hidden = len(rows) - limit
    if hidden == 1:
        hidden, limit = 0, limit + 1
    shown: list[Line] = [[Span(printable(row), "dim")] for row in rows[-limit:]]
    return [[Span(f"… +{hidden} lines", "dim")], *shown] if hidden > 0 else shown


def _bounded(lines: Iterable[Line], limit: int) -> list[Line]:
    rows = list(lines)
    more = len(rows) - limit
    return [*rows[:limit], [Span(f"… +{more} lines", "dim")]] if more > 0 else rows
