"""Describe tool calls in words: what they do, what was asked for, and how they ended."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agentcli.events import Action, Observation, actions
from agentcli.events import observations as obs
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
    by_name = call is not None and not isinstance(action, actions.MCPAction)
    name = call.function_name if call and by_name else actions.tool_name(action)
    return printable(name, multiline=False)


def call_text(action: Action) -> str:
    """Return what the call is about, in full: it may have several lines; paths are as given."""
    match action:
        case actions.CmdRunAction(restart=True):
            return "restart the shell"
        case actions.CmdRunAction(job=str() as job, command=command):
            return f"{command.strip()} {job}"
        case actions.CmdRunAction(command=command, is_input=is_input, background=background):
            return ("< " if is_input else "$ ") + command + (" &" if background else "")
        case actions.IPythonRunCellAction(code=text):
            return text
        case actions.FileReadAction(path=path, start=start, end=end):
            return f"{path}:{start}-{end or ''}" if start != 1 or end else path
        case actions.FileWriteAction(path=path):
            return path
        case actions.FileEditAction(path=path, command=command):
            return path if command == "str_replace" else f"{path} ({command.replace('_', ' ')})"
        case actions.SearchAction() | actions.GlobAction():
            where = "" if action.path in (".", "") else f" in {action.path}"
            return f"{action.pattern}{where}"
        case actions.TaskTrackingAction(task_list=items) if items:
            done = sum(item.get("status") == "done" for item in items)
            return f"{done}/{len(items)} done"
    return _rarer_call_text(action)


def _rarer_call_text(action: Action) -> str:
    match action:
        case actions.ToolCallAction(raw_arguments=raw, error=error):
            return "" if error else argument_line(json_object(raw) or {})
        case actions.MCPAction(arguments=arguments):
            return argument_line(arguments)
        case actions.MemoryAction(command=command, target=target):
            return f"{command} {'on the user' if target == 'user' else 'on this project'}"
        case actions.BrowseURLAction(url=url):
            return url
        case actions.AgentDelegateAction(agent=agent, task=task):
            first, *more = task.strip().split("\n", 1)
            return f"{agent}: {first}{' …' if more else ''}"
        case actions.AskUserAction(question=question):
            return question
        case actions.RecallAction(recall_type=kind, query=query):
            return f"{kind.replace('_', ' ')} {query}".rstrip()
        case actions.AgentThinkAction() | actions.AgentFinishAction():
            return ""
        case actions.TaskTrackingAction():
            return ""
    return action.message


class Code(NamedTuple):
    """The code that a call runs; `prompt` is shown before it and is not part of it."""

    text: str
    language: str
    prompt: str = ""


def code_of(action: Action) -> Code | None:
    """Return the code that a call runs, if any. Input for a running program is not code."""
    match action:
        case actions.CmdRunAction(is_input=False, job=None, restart=False, command=command):
            return Code(command, "bash", "$ ")
        case actions.IPythonRunCellAction(code=text):
            return Code(text, "python")
    return None


def reach_of(action: Action) -> str:
    """Return what a command may do beyond the sandbox once it runs; empty for most commands."""
    if isinstance(action, actions.CmdRunAction) and action.unsandboxed:
        return "outside the sandbox"
    return "with network" if getattr(action, "network", False) else ""


def call_line(icon: Span, action: Action, text: Line, end: Line, width: int) -> Line:
    """Return a line such as `• bash    $ pytest -q · exit 0`. Only the call's text is cut."""
    head = call_head(icon, action)
    room = width - cells(plain([*head, *end]))
    return [*head, *clip(text, max(room, 10)), *end]


def call_head(icon: Span, action: Action) -> list[Span]:
    return [icon, Span(f" {call_name(action):<6}  ", "bold")]


def call_lines(action: Action) -> list[Line]:
    """Return the lines that belong below the call whatever its outcome: thoughts, task lists."""
    match action:
        case actions.AgentThinkAction(thought=thought):
            return [[Span(line, "dim")] for line in printable(thought.strip()).split("\n")]
        case actions.TaskTrackingAction(task_list=items):
            lines: list[Line] = []
            for item in items:
                box, style = _BOXES.get(item.get("status", ""), ("[ ]", ""))
                title = printable(item.get("title", ""), multiline=False)
                lines.append([Span(f"{box} {title}", style)])
            return lines
    return []


def outcome(observation: Observation, folding: Folding = FOLDED) -> Outcome:
    """Return how a call ended, from the observation that answers it."""
    failed = bool(getattr(observation, "error", False))
    match observation:
        case obs.CmdOutputObservation():
            return _command_outcome(observation, folding)
        case obs.FileWriteObservation() | obs.FileEditObservation():
            return _change_outcome(observation, folding)
        case obs.UserAnswerObservation(answer=None, content=content):
            status = content.partition(":")[0].rstrip(".").lower()
            return Outcome([Span(printable(status, multiline=False), "yellow")])
        case obs.UserAnswerObservation(answer=str() as answer):
            first, *rest = printable(answer).split("\n")
            return Outcome([Span(first, "green")], [[Span(line)] for line in rest], whole=True)
        case obs.MemoryObservation(path=path, removed=removed, added=added):
            # Later sessions see the note, so it is shown in full: the user must be able to object.
            lines = [*marked_lines(removed, "-"), *marked_lines(added, "+")]
            return Outcome([Span(path, "dim")], lines, whole=True)
        case obs.ErrorObservation() | obs.UserRejectObservation():
            return _failure(observation, folding)
        case obs.ToolResultObservation() | obs.MCPObservation() if failed:
            return _failure(observation, folding)
    limit = _most_lines(observation, folding)
    lines = output_lines(observation.content, limit, folding, _call_of(observation))
    failed = failed and not isinstance(observation, obs.IPythonRunCellObservation)
    return Outcome(_facts(observation), lines, failed=failed)


def _facts(observation: Observation) -> list[Span]:
    """Return what a call's line says about the result of tools that only give text."""
    match observation:
        case obs.IPythonRunCellObservation(content=content, error=failed):
            if why := interruption_text(content):
                return [Span(why, "yellow")]
            return [Span("error", "red")] if failed else []
        case obs.BrowserOutputObservation(status_code=int() as code, error=failed):
            return [Span(f"status {code}", "red" if failed else "dim")]
        case obs.DelegateObservation(error=failed, files_changed=files):
            facts = [f"{observation.status} after " * failed + count(observation.steps, "step")]
            cost = observation.cost_usd
            facts.append("$?" if cost is None else money(cost))
            facts += [f"{count(len(files), 'file')} changed"] if files else []
            text = " · ".join([*facts, observation.session_id])
            return [Span(printable(text, multiline=False), "red" if failed else "dim")]
        case obs.FileReadObservation(image_urls=images) if images:
            return [Span(count(len(images), "image"), "dim")]
        case obs.FileReadObservation(lines_total=int() as total):
            first, last = observation.lines_shown or (1, total)
            shown, read = last - first + 1, count(total, "line")
            return [Span(read if shown >= total else f"{shown:,} of {read}", "dim")]
        case obs.FileReadObservation():
            return [Span("")]
        case obs.SearchObservation(matches=matches, truncated=cut):
            return [Span(count(matches, "match") + (", cut" if cut else ""), "dim")]
        case obs.MCPObservation(image_urls=images, duration_s=took):
            pictures = f" · {count(len(images), 'image')}" if images else ""
            return [Span(f"{duration(took)}{pictures}", "dim")]
    return []


def _most_lines(observation: Observation, folding: Folding) -> int | None:
    """Return how many lines of the observation's text are shown."""
    match observation:
        case obs.IPythonRunCellObservation(error=True):
            return folding.failed_output
        case obs.IPythonRunCellObservation() | obs.MCPObservation() | obs.ToolResultObservation():
            return folding.output
        case obs.FileReadObservation() | obs.BrowserOutputObservation() | obs.DelegateObservation():
            return folding.read
        case obs.SearchObservation() | obs.TaskTrackingObservation() | obs.RecallObservation():
            return folding.found
    return 0


def _call_of(observation: Observation) -> int:
    return observation.id if observation.cause is None else observation.cause


def _command_outcome(observation: obs.CmdOutputObservation, folding: Folding) -> Outcome:
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
    if line := _EXIT_LINE.search(content):
        content = content[: line.start()] + content[line.end() :]
        parts += [Span(f" · {printable(line[1])}", "dim")] if line[1] else []
    if code is not None and not content.strip():
        parts.append(Span(" · no output", "dim"))
    limit = folding.output if code == 0 else folding.failed_output
    return Outcome(parts, output_lines(content, limit, folding, _call_of(observation)))


def _change_outcome(
    observation: obs.FileWriteObservation | obs.FileEditObservation, folding: Folding
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
    if isinstance(observation, obs.ErrorObservation):
        message = _USER_TEXT_BY_ERROR.get(observation.error_id, "")
        if observation.error_id == "interrupted" and observation.content.startswith("Not started"):
            message = "not started"
        if message:
            whole = observation.content if folding.error is None else ""
            lines = output_lines(whole, None, folding, _call_of(observation))
            return Outcome([Span(message, "yellow")], lines, failed=True, prose=True)
    word, text = "error", observation.content
    if isinstance(observation, obs.UserRejectObservation):
        word, text = "not allowed", observation.reason or text
    first, *rest = printable(text.strip()).split("\n")
    status = [Span(f"{word}: {first}" if first else word, "red")]
    lines = [[Span(line, "red")] for line in rest]
    shown = folding.first(lines, folding.error, _call_of(observation))
    return Outcome(status, shown, failed=True, prose=True)


def request_lines(action: Action, observation: Observation, width: int) -> list[Line]:
    """Return the model's reason for a command, the texts of a change whose diff lacks them, and the
    arguments of a call that no tool understood. Prose is broken between words to fit `width`
    columns."""
    match action:
        case actions.CmdRunAction(reason=reason) if reason:
            words = printable(reason.strip(), multiline=False)
            return wrap([Span(f"asked for, in the model's words: {words}", "dim")], width)
        case actions.FileWriteAction(content=content) if not _has_diff(observation):
            return marked_lines(content, "+")
        case actions.FileEditAction() if not _has_diff(observation):
            new = action.new_str if action.new_str is not None else action.content
            pairs = [(old, text) for old, text, _ in action.replacements] or [("", new or "")]
            marked = ((marked_lines(old, "-"), marked_lines(text, "+")) for old, text in pairs)
            return [line for removed, added in marked for line in (*removed, *added)]
        case actions.MemoryAction(text=text) | actions.AgentDelegateAction(task=text):
            return [[Span(row)] for row in printable(text).split("\n")]
        case actions.ToolCallAction(error=str(), raw_arguments=raw):
            rows = ([Span(printable(row))] for row in raw_argument_rows(raw))
            return [line for row in rows for line in wrap(row, width)]
    return []


def _has_diff(observation: Observation) -> bool:
    changed = obs.FileWriteObservation | obs.FileEditObservation
    return isinstance(observation, changed) and not is_cut(observation.diff)
