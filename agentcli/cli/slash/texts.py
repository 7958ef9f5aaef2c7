"""Slash commands that show, copy and write what a session has."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentcli import __version__
from agentcli.agent.replies import last_answer
from agentcli.cli.builders import redactor_for
from agentcli.cli.commands.context import use_of
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.user_programs import copy_text
from agentcli.cli.options import number
from agentcli.cli.slash_command import SlashCommand, first_line
from agentcli.cli.user_paths import resolved_target, tilde_path, write_atomically
from agentcli.errors import UsageError
from agentcli.events import Event
from agentcli.events.actions import CmdRunAction, TaskTrackingAction
from agentcli.events.conversation import newest, newest_first
from agentcli.events.observations import SessionStartedObservation
from agentcli.sessions.export import EXPORTERS, exporter, trajectory_of
from agentcli.sessions.session import SessionLog, read_session
from agentcli.system.homes import expanded
from agentcli.ui.calls import call_lines
from agentcli.ui.prompt.control import Completion
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import count, money, quantity
from agentcli.ui.text import Line, Span, printable

_COLUMN = 12


def status(conversation: Conversation, argument: str) -> None:
    """Show where this conversation stands: session, model, folder, sandbox, what runs unasked.

    Also shows what was used so far, what waits to be heard, and which commands run in the
    background."""
    facts = [*_settings(conversation)]
    if conversation.opened is not None:
        facts = [*_session(conversation.session), *facts, *_use_so_far(conversation)]
    lines: list[Line] = [
        [Span(f"{name:<{_COLUMN}}", "dim"), Span(printable(value, multiline=False))]
        for name, value in facts
    ]
    conversation.print(*lines)


def _session(session: SessionLog) -> Iterator[tuple[str, str]]:
    state = session.state
    yield "session", f"{state.name} ({session.id})" if state.name else session.id
    yield "task", state.title


def _settings(conversation: Conversation) -> Iterator[tuple[str, str]]:
    settings = conversation.settings
    effort = f", effort {settings.model.effort}" if settings.model.effort else ""
    yield "model", f"{conversation.status.model}{effort}"
    yield "folder", tilde_path(conversation.builder.workspace)
    if conversation.opened is not None:
        yield "sandbox", _sandbox(conversation.session)
    yield "approval", settings.agent.approval
    yield "agent", __version__


def _sandbox(session: SessionLog) -> str:
    start = newest(session.events, SessionStartedObservation)
    if start is None or start.sandbox == "none":
        return "none: commands run with all your rights"
    network = "with the network" if start.network else "no network"
    return f"{start.sandbox}, {network}"


def _use_so_far(conversation: Conversation) -> Iterator[tuple[str, str]]:
    session, state = conversation.session, conversation.session.state
    use = use_of(list(session.events), state.model, conversation.builder)
    full = f", {100 * use.used // use.window}% of the window" if use.window else ""
    yield "context", f"{quantity(use.used)} tokens{full}"
    tokens = quantity(int(state.total("prompt_tokens") + state.total("completion_tokens")))
    budget = f" of ${state.max_budget_usd:g}" if state.max_budget_usd is not None else ""
    spent = f"{money(state.cost_usd)}{budget}"
    yield "used", f"{count(state.iteration, 'step')}, {tokens} tokens, {spent}"
    working = conversation.control.is_working
    yield "now", "at work" if working else how_it_ended(state.agent_state, state.exit_code)
    if waiting := conversation.control.queued():
        yield "waiting", "; ".join(each.text for each in waiting)
    assert conversation.opened is not None
    if jobs := conversation.opened.running_jobs():
        yield "background", ", ".join(job.job_id for job in jobs)


def todo(conversation: Conversation, argument: str) -> None:
    """Show the agent's newest list of tasks."""
    tracked = newest(conversation.session.events, TaskTrackingAction)
    if tracked is None or not tracked.task_list:
        conversation.tell("the agent has no task list here")
        return
    conversation.print([Span(tracked.message, "dim")], *call_lines(tracked))


_COMMAND = "command"
_EXAMPLES = "/copy, /copy 1, /copy command"
_FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)


def copy(conversation: Conversation, argument: str) -> None:
    """Copy the last answer, one of its code blocks by number, or the last command.

    The text goes to the clipboard by wl-copy, xclip, xsel or pbcopy if one is installed, by tmux
    inside tmux, else by the terminal itself (OSC 52), which also works over ssh."""
    what, text = _text_to_copy(conversation.session.events, argument)
    by = copy_text(text, conversation.prompt)
    lines = text.count("\n") + 1
    size = count(lines, "line") if lines > 1 else count(len(text), "character")
    shown = printable(first_line(text), multiline=False)
    conversation.tell(f"copied {what} by {by} ({size}): {shown}")


def _text_to_copy(events: Sequence[Event], argument: str) -> tuple[str, str]:
    """Return the name and text of what to copy. Raises UsageError."""
    if argument == _COMMAND:
        command = _last_command(events)
        if not command:
            raise UsageError("no command ran yet")
        return "the last command", command
    answer = last_answer(events, any_turn=True).strip()
    if not answer:
        raise UsageError("there is no answer yet")
    if not argument:
        return "the last answer", answer
    blocks = code_blocks(answer)
    chosen = dict(enumerate(blocks, 1)).get(number(argument, _EXAMPLES))
    if chosen is None:
        has = count(len(blocks), "code block") if blocks else "no code block"
        raise UsageError(
            f"there is no {argument!r} to copy: the last answer has {has}",
            hint=f"such as {_EXAMPLES}",
        )
    return f"code block {argument}", chosen


def _last_command(events: Sequence[Event]) -> str:
    for event in newest_first(events):
        if isinstance(event, CmdRunAction) and not (event.is_input or event.job):
            return event.command
    return ""


def code_blocks(text: str) -> list[str]:
    """Return the fenced code blocks, without their fences."""
    return [match["code"].rstrip("\n") for match in _FENCE.finditer(text)]


def _complete_copy(conversation: Conversation, typed: str) -> Sequence[Completion]:
    if conversation.opened is None:
        return []
    events = conversation.opened.session.events
    blocks = enumerate(code_blocks(last_answer(events, any_turn=True)), 1)
    found = [Completion(str(place), first_line(block)) for place, block in blocks]
    if command := _last_command(events):
        found.append(Completion(_COMMAND, first_line(command)))
    return [each for each in found if each.text.startswith(typed)]


_ENDINGS = {"markdown": "md"}
"""Endings of files that differ from the name of their format."""
_DEFAULT = "markdown"


def export(conversation: Conversation, argument: str) -> None:
    """Write this session to a file, with secrets masked: as Markdown or in another format.

    `/export talk.md` writes Markdown; `.html`, `.json` and `.jsonl` write those formats. Any format
    can be named first: `/export json talk.txt`, `/export json`. Without a file name, the file is
    named after the session and replaces an earlier one of that name; no other existing file is
    replaced."""
    session = conversation.session
    form, name = _parse(argument)
    own_name = f"{session.id}.{_ENDINGS.get(form, form)}"
    workspace = conversation.builder.workspace
    path = Path(os.path.normpath(workspace / expanded(name or own_name)))
    if path.is_dir():
        path /= own_name
    resolved_target(path)
    if path.name != own_name and path.exists():
        raise UsageError(f"{tilde_path(path)} already exists", hint="choose another name")
    redact = redactor_for(conversation.builder)
    write_atomically(path, exporter(form)(trajectory_of(read_session(session.folder), redact)))
    conversation.tell(f"written as {form}: {tilde_path(path)}")


def _parse(argument: str) -> tuple[str, str]:
    """Return format and file, "" for no file. Raises UsageError."""
    try:
        words = shlex.split(argument)
    except ValueError:
        words = [argument]
    formats = EXPORTERS.all()
    match words:
        case []:
            return _DEFAULT, ""
        case [form] if form in formats:
            return form, ""
        case [name] if "." in name or "/" in name:
            ending = Path(name).suffix.removeprefix(".")
            return (ending if ending in formats else _DEFAULT), name
        case [form, name]:
            exporter(form)
            return form, name
        case [word]:
            raise UsageError(
                f"is {word!r} a format or a file?",
                hint=f"formats: {', '.join(formats)}; a file: /export {word}.md, or ./{word}",
            )
    raise UsageError("name one file", hint="/export [FORMAT] [FILE], quoted if it has spaces")


def _complete_export(conversation: Conversation, typed: str) -> Sequence[Completion]:
    return [Completion(f"{name} ", "format") for name in EXPORTERS.all() if name.startswith(typed)]


SLASH_COMMANDS = {
    "status": SlashCommand(status, at_once=True),
    "todo": SlashCommand(todo, at_once=True),
    "copy": SlashCommand(copy, takes="[N|command]", complete=_complete_copy, at_once=True),
    "export": SlashCommand(export, takes="[FORMAT] [FILE]", complete=_complete_export),
}
