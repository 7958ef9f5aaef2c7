"""Slash commands in an editor: a few built-in ones, the user's own, skills, and prompts of tool
servers.

Of the commands in a terminal (`cli/slash`) only those are here that act on the session and for
which an editor has no place of its own, as it has for modes, models and the list of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from acp.helpers import update_available_commands
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    UnstructuredCommandInput,
)

from agentcli.acp.prompts import Prompt
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.compact import compact_open
from agentcli.app.init_task import INIT_TASK
from agentcli.app.open_session import OpenSession
from agentcli.app.own_commands import OwnCommands, own_commands
from agentcli.app.server_mentions import prompt_text, prompts, takes
from agentcli.app.undo import undo
from agentcli.errors import ConfigError, UsageError
from agentcli.sessions.search.finder import exists
from agentcli.sessions.session import Session
from agentcli.ui.summary import quantity
from agentcli.ui.text import printable

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
