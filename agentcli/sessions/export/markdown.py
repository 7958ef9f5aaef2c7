"""Markdown for people: the conversation with its tool calls, their outputs and diffs."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from agentcli.events import Action, Event, Observation, OpaqueEvent, Source, event_from_dict
from agentcli.events.actions import (
    AgentFinishAction,
    AgentThinkAction,
    CmdRunAction,
    CondensationAction,
    IPythonRunCellAction,
    MCPAction,
    MessageAction,
    RecallAction,
    RenameAction,
    RewindAction,
    SystemMessageAction,
    ToolCallAction,
    is_user_message,
    tool_name,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CheckpointObservation,
    DecisionObservation,
    ErrorObservation,
    FileEditObservation,
    FileWriteObservation,
    SessionStartedObservation,
)
from agentcli.sessions.export import Trajectory
from agentcli.ui.text import printable

_SHORT_OUTPUT_LINES = 12
_LONGEST_OUTPUT_LINES = 400
_TICKS = re.compile(r"`+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_QUIET_STATES = frozenset({"idle", "running", "finished", "awaiting_user_input"})
_NOTES = (
    CondensationAction,
    DecisionObservation,
    OpaqueEvent,
    RenameAction,
    RewindAction,
    SessionStartedObservation,
)


def write(trajectory: Trajectory) -> Iterator[str]:
    yield _heading(_readable(trajectory.header))
    speaker = ""
    for data in trajectory.events:
        event = event_from_dict(_readable(data))
        blocks = list(_blocks(event))
        if blocks and (now := _speaker(event)) and now != speaker:
            speaker = now
            yield f"\n## {speaker}\n"
        for block in blocks:
            yield f"\n{block}\n"


def _readable(value: Any) -> Any:
    """Return the value with nothing in its texts that a terminal acts on: Markdown is read there
    too, out of a pipe or a file. Done before fences are chosen, which it could shorten."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(inner) for key, inner in value.items()}
    return list(map(_readable, value)) if isinstance(value, list) else value


def _heading(header: dict[str, Any]) -> str:
    usage = header["usage"]
    cost = header["cost_usd"]
    facts = {
        "Session": header["session_id"] + (f" ({header['name']})" if header["name"] else ""),
        "Workspace": header["workspace"],
        "Model": header["model"],
        "Time": f"{header['created_at']} to {header['updated_at']}",
        "State": header["state"],
        "Tokens": f"{usage['prompt_tokens']:,} read ({usage['cache_read_tokens']:,} from cache), "
        f"{usage['completion_tokens']:,} written",
        "Cost": "unknown" if cost is None else f"${cost:.4f}",
    }
    title = _one_line(header["title"]) or header["session_id"]
    lines = [f"- {name}: {_code(str(value))}" for name, value in facts.items() if value]
    return f"# {html.escape(title, quote=False)}\n\n" + "\n".join(lines) + "\n"


def _speaker(event: Event) -> str:
    if is_user_message(event):
        return "User"
    return "Agent" if isinstance(event, Action) and event.source is Source.AGENT else ""


def _blocks(event: Event) -> Iterator[str]:
    match event:
        case SystemMessageAction():
            yield _folded(event.message, event.content)
        case MessageAction():
            yield from _message(event)
        case AgentThinkAction():
            yield _quoted(event.thought)
        case AgentFinishAction():
            yield f"**{event.kind}** ({event.status})"
            if event.final_thought:
                yield _closed(event.final_thought)
        case _ if isinstance(event, _NOTES):
            yield f"*{_plain(event.message)}*"
        case RecallAction():
            pass
        case Action():
            yield from _call(event)
        case Observation():
            yield from _observation(event)


def _message(event: MessageAction) -> Iterator[str]:
    if event.source is Source.USER:
        yield _quoted(event.content)
        return
    if event.reasoning:
        yield _folded("reasoning", event.reasoning)
    if event.content.strip():
        yield _closed(event.content)


def _call(event: Action) -> Iterator[str]:
    match event:
        case CmdRunAction(job=None):
            yield f"**bash**\n\n{_fenced(event.command, 'sh')}"
        case IPythonRunCellAction():
            yield f"**python**\n\n{_fenced(event.code, 'python')}"
        case ToolCallAction():
            yield f"**{_plain(event.name)}**\n\n{_fenced(event.raw_arguments, 'json')}"
        case MCPAction():
            asked = json.dumps(event.arguments, ensure_ascii=False)
            yield f"**{_plain(tool_name(event))}**\n\n{_fenced(asked, 'json')}"
        case _:
            name = event.kind.replace("_", " ")
            yield f"**{name}** {_code(event.message.removeprefix(f'{name} '))}"


def _observation(event: Observation) -> Iterator[str]:
    match event:
        case AgentStateChangedObservation():
            if event.agent_state not in _QUIET_STATES:
                yield f"*{_plain(event.message)}*"
                if event.content:
                    yield _quoted(event.content)
        case FileWriteObservation(diff=diff) | FileEditObservation(diff=diff) if diff:
            yield f"{_plain(event.message)}\n\n{_fenced(diff, 'diff')}"
        case ErrorObservation():
            yield f"**error** {_code(event.error_id)}\n\n{_quoted(event.content)}"
        case CheckpointObservation():
            pass
        case _:
            yield from _output(event)


def _output(event: Observation) -> Iterator[str]:
    if not event.content.strip():
        if event.cause is not None:
            yield f"*{_plain(event.message)}*"
    elif event.content.count("\n") < _SHORT_OUTPUT_LINES:
        yield _fenced(event.content)
    else:
        yield _folded(event.message, event.content)


def _folded(summary: str, text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_LONGEST_OUTPUT_LINES])
    more = len(lines) - _LONGEST_OUTPUT_LINES
    cut = f"\n\n*{more:,} more lines*" if more > 0 else ""
    title = f"{html.escape(_one_line(summary))} ({len(lines):,} lines)"
    return f"<details>\n<summary>{title}</summary>\n\n{_fenced(shown)}{cut}\n\n</details>"


def _fenced(text: str, language: str = "") -> str:
    """Return `text` unchanged, in a fence longer than any within it."""
    fence = max("```", _more_ticks(text), key=len)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").splitlines())


def _closed(text: str) -> str:
    """Close a fence that the Markdown text leaves open, so that it swallows nothing after it."""
    fence = ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match is None:
            continue
        marks, rest = match.groups()
        if not fence:
            fence = marks
        elif marks.startswith(fence) and not rest.strip():
            fence = ""
    return f"{text.rstrip()}\n{fence}" if fence else text.strip("\n")


def _code(text: str) -> str:
    """Return `text` on one line, as inline code."""
    text = _one_line(text)
    ticks = _more_ticks(text)
    return f"{ticks} {text} {ticks}" if len(ticks) > 1 else f"`{text}`"


def _more_ticks(text: str) -> str:
    """Return one more backtick than the longest run in `text`."""
    return "`" * (max(map(len, _TICKS.findall(text)), default=0) + 1)


def _plain(text: str) -> str:
    """Return `text` on one line, with everything escaped that Markdown interprets."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


EXPORTER = write
