"""Write this session to a file, with secrets masked: as Markdown or in another format.

`/export talk.md` writes Markdown; `.html`, `.json` and `.jsonl` write those formats. Any format can
be named first: `/export json talk.txt`, `/export json`. Without a file name, the file is named
after the session and replaces an earlier one of that name; no other existing file is replaced.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from agentcli.cli.builders import redactor_for
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.cli.user_paths import resolved_target, tilde_path, write_atomically
from agentcli.errors import UsageError
from agentcli.sessions.export import EXPORTERS, exporter, trajectory_of
from agentcli.sessions.session import read_session
from agentcli.system.homes import expanded
from agentcli.ui.prompt.control import Completion

_ENDINGS = {"markdown": "md"}
"""Endings of files that differ from the name of their format."""
_DEFAULT = "markdown"


def export(conversation: Conversation, argument: str) -> None:
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


def _complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    return [Completion(f"{name} ", "format") for name in EXPORTERS.all() if name.startswith(typed)]


SLASH_COMMAND = SlashCommand(export, takes="[FORMAT] [FILE]", complete=_complete)
