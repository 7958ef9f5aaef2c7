"""Prompts of an editor: text, files that it points at, resources and images."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from acp.helpers import update_available_commands
from acp.schema import (
    AudioContentBlock,
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
    UnstructuredCommandInput,
)

from agentcli.agent.prompts import INIT_TASK
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.attachments import attached
from agentcli.app.compact import compact_open
from agentcli.app.open_session import OpenSession
from agentcli.app.undo import undo
from agentcli.app.user_commands import OwnCommands, own_commands, prompt_text, prompts, takes
from agentcli.errors import ConfigError, UsageError
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.sessions.finder import exists
from agentcli.sessions.session import Session
from agentcli.shell.output import kept_text
from agentcli.tools.base import ToolContext
from agentcli.ui.summary import quantity
from agentcli.ui.text import printable
from agentcli.workspace.images import ImageFault, data_url

Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


@dataclass(frozen=True)
class Resource:
    """Something whose content the editor sends along, such as an unsaved buffer."""

    uri: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """A prompt. `typed` is what the user wrote, with the names of the places that they point
    at."""

    typed: str
    resources: tuple[Resource, ...] = ()
    image_urls: tuple[str, ...] = ()

    def text(self, context: ToolContext) -> str:
        """Return the message with the resources below it. Of a long one the middle is kept in a
        file of the session."""
        parts = [self.typed]
        for resource in self.resources:
            kept = kept_text(
                resource.text, context.outputs, "resource-{}.txt", context.max_output_chars
            )
            parts.append(wrap_in_tag("tool_result", kept.text, resource=resource.uri))
        return "\n\n".join(filter(None, parts))


def read_prompt(
    blocks: Sequence[Block], workspace: Path, objection: Callable[[Path], str]
) -> Prompt:
    """Make a prompt of the editor's blocks. `objection` says why a file may not be read. Raises
    UsageError for that, and for what no model can be shown."""
    typed: list[str] = []
    resources: list[Resource] = []
    images: list[str] = []
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                typed.append(text)
            case ImageContentBlock():
                images.append(_image(block, objection))
            case ResourceContentBlock(uri=uri, name=name):
                typed.append(_named(uri, name, workspace))
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                typed.append(_named(uri, "", workspace))
                resources.append(Resource(uri, text))
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as blob):
                typed.append(_named(blob.uri, "", workspace))
                images.append(_of_bytes(blob.blob, blob.uri))
            case _:
                raise UsageError("sound can't be shown to a model", hint="say it in words")
    prompt = Prompt("".join(typed).strip(), tuple(resources), tuple(images))
    if not prompt.typed and not prompt.image_urls:
        raise UsageError("the prompt is empty", hint="say what is to be done")
    return prompt


def _named(uri: str, name: str, workspace: Path) -> str:
    """Return the name that a user would use: files by their path from the workspace, with
    lines."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return f"{name} ({uri})" if name and name != uri else uri
    path = Path(unquote(parts.path))
    shown = path.relative_to(workspace) if path.is_relative_to(workspace) else path
    lines = f":{parts.fragment.replace('L', '')}" if parts.fragment.startswith("L") else ""
    return f"@{shown}{lines}"


def _image(block: ImageContentBlock, objection: Callable[[Path], str]) -> str:
    parts = urlsplit(block.uri or "")
    if block.data or parts.scheme != "file":
        return _of_bytes(block.data, block.uri or "the image")
    return attached([Path(unquote(parts.path))], objection)[0]


def _of_bytes(data: str, name: str) -> str:
    try:
        return data_url(base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise UsageError(f"{name} is not in base64") from error
    except ImageFault as fault:
        raise UsageError(f"{name} {fault}") from fault


_FORCE = "--force"
_OF_SERVERS = "mcp__"


class CommandTarget(Protocol):
    """The session that commands apply to."""

    @property
    def folder(self) -> Path: ...
    @property
    def builder(self) -> AgentBuilder: ...
    def open(self) -> OpenSession: ...
    def close(self) -> None: ...
    def show_note(self, words: str) -> None: ...


@dataclass(frozen=True)
class _Command:
    """A built-in command. `run` does it and returns what was done; without one, `text` is what is
    said to the model."""

    help: str
    takes: str = ""
    run: Callable[[CommandTarget, str], str] | None = None
    text: str = ""


def _compact(session: CommandTarget, focus: str) -> str:
    done = compact_open(session.open(), focus)
    if done.action is None:
        return "There is nothing to condense: the newest two steps always stay."
    before, after = quantity(done.tokens_before), quantity(done.tokens_after)
    return f"Older work is summed up for the model: {before} → {after} tokens."


def _undo(session: CommandTarget, argument: str) -> str:
    words = [word for word in argument.split() if word != _FORCE]
    if len(words) > 1 or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"{argument!r} is not a number (1 or more)", hint="such as /undo 3")
    if not exists(session.folder):
        raise UsageError("nothing was done yet")
    session.close()
    with Session.open(session.folder) as stored:
        done = undo(stored, int(words[0]) if words else 1, force=_FORCE in argument.split())
    files = "\n".join(f"- {printable(each.git_description or each.path)}" for each in done.changes)
    return f"Brought back, as at event {done.to_event}:\n\n{files}"


_BUILT_IN: Mapping[str, _Command] = {
    "compact": _Command(
        "Sum up the older work for the model, to make room in its window", "what to keep", _compact
    ),
    "undo": _Command(
        "Take back what the last steps did to files and to git", f"[steps] [{_FORCE}]", _undo
    ),
    "init": _Command("Have the project described in AGENTS.md", "wish", text=INIT_TASK),
}


class Commands:
    """The commands of one session."""

    def __init__(self, session: CommandTarget) -> None:
        self._session = session

    def run(self, said: Prompt) -> bool:
        """Run what was said if it is a command that acts by itself, and return whether it is. Other
        text goes to the model. Raises AgentError, RequestError, TurnInterrupted."""
        name, _, argument = said.typed.removeprefix("/").partition(" ")
        if not said.typed.startswith("/") or not (found := _BUILT_IN.get(name)) or not found.run:
            return False
        self._session.show_note(found.run(self._session, argument.strip()))
        return True

    def expanded(self, said: Prompt, opened: OpenSession) -> Prompt:
        """Replace a command by the text that it stands for. Skills are expanded elsewhere."""
        name, _, argument = said.typed.removeprefix("/").partition(" ")
        if not said.typed.startswith("/"):
            return said
        if (built_in := _BUILT_IN.get(name)) is not None:
            return replace(said, typed=f"{built_in.text.rstrip()}\n\n{argument}".rstrip())
        if (own := self._own().commands.get(name)) is not None:
            return replace(said, typed=own.text(argument))
        if name.startswith(_OF_SERVERS) and opened.servers is not None:
            text = prompt_text(opened.servers, name, argument)
            return said if text is None else replace(said, typed=text)
        return said

    def update(self, opened: OpenSession | None) -> AvailableCommandsUpdate:
        """Return the update that lists all commands with their help."""
        return update_available_commands(
            [
                AvailableCommand(
                    name=name,
                    description=printable(told, multiline=False) or name,
                    input=_input(hint),
                )
                for name, told, hint in self._listed(opened)
            ]
        )

    def _listed(self, opened: OpenSession | None) -> Iterator[tuple[str, str, str]]:
        yield from ((name, each.help, each.takes) for name, each in _BUILT_IN.items())
        own = self._own()
        for name, command in own.commands.items():
            yield name, command.description, command.takes
        for skill in own.callable_skills():
            yield skill.name, skill.description, ""
        servers = opened.servers if opened is not None else None
        for name, server, prompt in prompts(servers) if servers is not None else ():
            yield name, f"{server}: {prompt.description}", takes(prompt)

    def _own(self) -> OwnCommands:
        builder = self._session.builder
        try:
            return own_commands(
                builder.environ, builder.workspace, builder.settings.knowledge, tuple(_BUILT_IN)
            )
        except ConfigError:
            return OwnCommands()


def _input(hint: str) -> AvailableCommandInput | None:
    if not hint:
        return None
    return AvailableCommandInput(UnstructuredCommandInput(hint=printable(hint, multiline=False)))
