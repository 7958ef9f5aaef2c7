"""Describe tool calls in words: what they do, what was asked for, and how they ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agentcli.events import Action, Observation
from agentcli.events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    AskUserAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    GlobAction,
    IPythonRunCellAction,
    MCPAction,
    MemoryAction,
    RecallAction,
    SearchAction,
    TaskTrackingAction,
    ToolCallAction,
    tool_name,
)
from agentcli.events.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    DelegateObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
    MemoryObservation,
    RecallObservation,
    SearchObservation,
    TaskTrackingObservation,
    ToolResultObservation,
    UserAnswerObservation,
    UserRejectObservation,
)
from agentcli.events.texts import json_object
from agentcli.ui.outputs import (
    FOLDED,
    Folding,
    diff_counts,
    diff_lines,
    interruption_text,
    is_cut,
    marked_lines,
    output_lines,
)
from agentcli.ui.summary import count, duration, money
from agentcli.ui.text import Line, Span, Style, cells, clip, plain, printable, wrap


def argument_line(arguments: Mapping[str, object]) -> str:
    """Return the value of a single argument, or else `name: value, name: value`."""
    if len(arguments) == 1:
        return _value_text(next(iter(arguments.values())))
    return ", ".join(f"{name}: {_value_text(value)}" for name, value in arguments.items())


def argument_rows(arguments: Mapping[str, object]) -> list[str]:
    """Return a row for each argument, with the lines of a longer text indented below its name."""
    rows: list[str] = []
    for name, value in arguments.items():
        first, *others = _value_text(value).split("\n")
        if others:
            rows += [f"{name}:", *(f"  {line}" for line in (first, *others))]
        else:
            rows.append(f"{name}: {first}")
    return rows


def raw_argument_rows(raw: str) -> list[str]:
    """Return the rows of arguments that a model wrote; its text if that is no JSON object."""
    return argument_rows(json_object(raw) or {}) or raw.split("\n")


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_EXIT_LINE = re.compile(r"(?:\A|\n)\[exit \d+(?:, no output)?(?:; (now in [^\]\n]+))?\](?=\n\[|\Z)")
"""The note for the model at the end of an output; people see its facts on the call's line."""

_BOXES: dict[str, tuple[str, Style]] = {
    "done": ("[x]", "dim"),
    "in_progress": ("[>]", "bold"),
    "cancelled": ("[-]", "dim"),
}


_USER_TEXT_BY_ERROR = {
    "invalid_tool_call": "not run: the model made a mistake in this call, and was told",
    "bad_pattern": "not run: the model's pattern is not valid, and it was told",
    "not_run": "not run: the call before it was refused",
    "interrupted": "interrupted; its effect is unknown",
    "file_not_read": "not changed: the model had not read this file, and was told to",
    "file_changed": "not changed: the file has changed since the model saw it, and it was told",
    "no_match": "not changed: what the model would replace is not in the file, and it was told",
    "several_matches": "not changed: what the model would replace is there more than once",
    "no_change": "not changed: the edit would have changed nothing",
}
"""Texts for people in place of errors that are worded for the model."""


@dataclass(slots=True)
class Outcome:
    """How a call ended: `status` goes on the call's line, `lines` below it. `whole` means that no
    line may be left out or cut, `wraps` that long lines are not cut either, and `prose` that lines
    are broken between words, as nobody copies them."""

    status: list[Span] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    failed: bool = False
    whole: bool = False
    wraps: bool = False
    prose: bool = False


def call_name(action: Action) -> str:
    call = action.tool_call_metadata
    by_name = call is not None and not isinstance(action, MCPAction)
    return printable(call.function_name if call and by_name else tool_name(action), multiline=False)


def call_text(action: Action) -> str:
    """Return what the call is about, in full: it may have several lines; paths are as given."""
    match action:
        case CmdRunAction(restart=True):
            return "restart the shell"
        case CmdRunAction(job=str() as job, command=command):
            return f"{command.strip()} {job}"
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
            return pattern if path in (".", "") else f"{pattern} in {path}"
        case TaskTrackingAction(task_list=items) if items:
            done = sum(item.get("status") == "done" for item in items)
            return f"{done}/{len(items)} done"
    return _rarer_call_text(action)


def _rarer_call_text(action: Action) -> str:
    match action:
        case ToolCallAction(raw_arguments=raw, error=error):
            return "" if error else argument_line(json_object(raw) or {})
        case MCPAction(arguments=arguments):
            return argument_line(arguments)
        case BrowseInteractiveAction():
            return action.message
        case MemoryAction(command=command, target=target):
            return f"{command} {'on the user' if target == 'user' else 'on this project'}"
        case BrowseURLAction(url=url):
            return url
        case AgentDelegateAction(agent=agent, task=task):
            first, *more = task.strip().split("\n", 1)
            return f"{agent}: {first}{' …' if more else ''}"
        case AskUserAction(question=question):
            return question
        case RecallAction(recall_type=kind, query=query):
            return f"{kind.replace('_', ' ')} {query}".rstrip()
        case AgentThinkAction() | AgentFinishAction() | TaskTrackingAction():
            return ""
    return action.message


class Code(NamedTuple):
    """The code that a call runs; `prompt` is shown before it and is not part of it."""

    text: str
    language: str
    prompt: str = ""


def code_of(action: Action) -> Code | None:
    """Return the code that a call runs; None if there is none. Input for a running program is no
    code."""
    match action:
        case CmdRunAction(is_input=False, job=None, restart=False, command=command):
            return Code(command, "bash", "$ ")
        case IPythonRunCellAction(code=text):
            return Code(text, "python")
    return None


def reach_of(action: Action) -> str:
    """Return what a command may do beyond the sandbox once it runs; empty for most commands."""
    if not isinstance(action, CmdRunAction):
        return ""
    if action.unsandboxed:
        return "outside the sandbox"
    return "with network" if action.network else ""


def call_line(icon: Span, action: Action, text: Line, end: Line, width: int) -> Line:
    """Return a line such as `• bash    $ pytest -q · exit 0`. If it is too long, the call's text is
    cut, never `end`."""
    head = call_head(icon, action)
    room = width - cells(plain([*head, *end]))
    return [*head, *clip(text, max(room, 10)), *end]


def call_head(icon: Span, action: Action) -> list[Span]:
    return [icon, Span(f" {call_name(action):<6}  ", "bold")]


def call_lines(action: Action) -> list[Line]:
    """Return the lines that belong below the call whatever its outcome: thoughts, task lists."""
    match action:
        case AgentThinkAction(thought=thought):
            return [[Span(line, "dim")] for line in printable(thought.strip()).split("\n")]
        case TaskTrackingAction(task_list=items):
            return [_task(item) for item in items]
    return []


def _task(item: dict[str, str]) -> Line:
    box, style = _BOXES.get(item.get("status", ""), ("[ ]", ""))
    return [Span(f"{box} {printable(item.get('title', ''), multiline=False)}", style)]


def outcome(observation: Observation, folding: Folding = FOLDED) -> Outcome:
    """Return how a call ended, from the observation that answers it."""
    failed = bool(getattr(observation, "error", False))
    match observation:
        case CmdOutputObservation():
            return _command_outcome(observation, folding)
        case FileWriteObservation() | FileEditObservation():
            return _change_outcome(observation, folding)
        case UserAnswerObservation():
            return _answer_outcome(observation)
        case MemoryObservation(path=path, removed=removed, added=added):
            # Later sessions see the note, so it is shown in full: the user must be able to object.
            lines = [*marked_lines(removed, "-"), *marked_lines(added, "+")]
            return Outcome([Span(path, "dim")], lines, whole=True)
        case ErrorObservation() | UserRejectObservation():
            return _failure(observation, folding)
        case ToolResultObservation() | MCPObservation() if failed:
            return _failure(observation, folding)
    lines = _output(observation, observation.content, _most_lines(observation, folding), folding)
    failed = failed and not isinstance(observation, IPythonRunCellObservation)
    return Outcome(_facts(observation), lines, failed=failed)


def _facts(observation: Observation) -> list[Span]:
    """Return what a call's line says about the result of tools that only give text."""
    match observation:
        case IPythonRunCellObservation(content=content, error=failed):
            if why := interruption_text(content):
                return [Span(why, "yellow")]
            return [Span("error", "red")] if failed else []
        case BrowserOutputObservation(status_code=int() as code, error=failed):
            return [Span(f"status {code}", "red" if failed else "dim")]
        case DelegateObservation(error=failed):
            facts = printable(" · ".join(_child_facts(observation)), multiline=False)
            return [Span(facts, "red" if failed else "dim")]
        case FileReadObservation():
            return [Span(_lines_read(observation), "dim")]
        case SearchObservation(matches=matches, truncated=cut):
            return [Span(count(matches, "match") + (", cut" if cut else ""), "dim")]
        case MCPObservation(image_urls=images, duration_s=took):
            pictures = f" · {count(len(images), 'image')}" if images else ""
            return [Span(f"{duration(took)}{pictures}", "dim")]
    return []


def _most_lines(observation: Observation, folding: Folding) -> int | None:
    """Return how many lines of the observation's text are shown."""
    match observation:
        case IPythonRunCellObservation(error=True):
            return folding.failed_output
        case IPythonRunCellObservation() | MCPObservation() | ToolResultObservation():
            return folding.output
        case FileReadObservation() | BrowserOutputObservation() | DelegateObservation():
            return folding.read
        case SearchObservation() | TaskTrackingObservation() | RecallObservation():
            return folding.found
    return 0


def _child_facts(report: DelegateObservation) -> Iterator[str]:
    """Sum up a child session; the session that the last fact names has the rest."""
    yield f"{report.status} after " * report.error + count(report.steps, "step")
    yield "$?" if report.cost_usd is None else money(report.cost_usd)
    if report.files_changed:
        yield f"{count(len(report.files_changed), 'file')} changed"
    yield report.session_id


def _output(observation: Observation, text: str, limit: int | None, folding: Folding) -> list[Line]:
    return output_lines(text, limit, folding, _call_of(observation))


def _call_of(observation: Observation) -> int:
    return observation.id if observation.cause is None else observation.cause


def _command_outcome(observation: CmdOutputObservation, folding: Folding) -> Outcome:
    metadata = observation.metadata
    code, took = metadata.exit_code, duration(metadata.duration_s)
    if why := interruption_text(observation.content):
        parts = [Span(f"{why} after {took}", "yellow")]
    elif code is not None:
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
    content = observation.content
    if told := _EXIT_LINE.search(content):
        content = content[: told.start()] + content[told.end() :]
        parts += [Span(f" · {printable(told[1])}", "dim")] if told[1] else []
    if code is not None and not content.strip():
        parts.append(Span(" · no output", "dim"))
    limit = folding.output if code == 0 else folding.failed_output
    return Outcome(parts, _output(observation, content, limit, folding))


def _answer_outcome(observation: UserAnswerObservation) -> Outcome:
    if observation.answer is None:
        told = observation.content.partition(":")[0].rstrip(".").lower()
        return Outcome([Span(printable(told, multiline=False), "yellow")])
    first, *rest = printable(observation.answer).split("\n")
    return Outcome([Span(first, "green")], [[Span(line)] for line in rest], whole=True)


def _change_outcome(
    observation: FileWriteObservation | FileEditObservation, folding: Folding
) -> Outcome:
    diff, existed = observation.diff, observation.prev_exist
    added, removed = diff_counts(diff)
    least = "at least " if is_cut(diff) else ""
    if not existed:
        status = [Span(f"new, {least}{count(added, 'line')}", "dim")]
    elif added or removed:
        status = [Span(f"{least}+{added} -{removed}", "dim")]
    else:
        status = [Span("unchanged", "dim")]
    limit = folding.edit if existed else folding.new_file
    lines = folding.first(diff_lines(diff), limit, _call_of(observation))
    return Outcome(status, lines, wraps=True)


def _failure(observation: Observation, folding: Folding) -> Outcome:
    if isinstance(observation, ErrorObservation) and (told := _text_for_user(observation)):
        whole = observation.content if folding.error is None else ""
        lines = _output(observation, whole, None, folding)
        return Outcome([Span(told, "yellow")], lines, failed=True, prose=True)
    word, text = "error", observation.content
    if isinstance(observation, UserRejectObservation):
        word, text = "not allowed", observation.reason or text
    first, *rest = printable(text.strip()).split("\n")
    status = [Span(f"{word}: {first}" if first else word, "red")]
    lines = [[Span(line, "red")] for line in rest]
    shown = folding.first(lines, folding.error, _call_of(observation))
    return Outcome(status, shown, failed=True, prose=True)


def _text_for_user(error: ErrorObservation) -> str:
    """Return the text for people in place of the error's own; empty if the latter will do."""
    if error.error_id == "interrupted" and error.content.startswith("Not started"):
        return "not started"
    return _USER_TEXT_BY_ERROR.get(error.error_id, "")


def _lines_read(observation: FileReadObservation) -> str:
    if observation.image_urls:
        return count(len(observation.image_urls), "image")
    total = observation.lines_total
    if total is None:
        return ""
    first, last = observation.lines_shown or (1, total)
    shown = last - first + 1
    return count(total, "line") if shown >= total else f"{shown:,} of {count(total, 'line')}"


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
