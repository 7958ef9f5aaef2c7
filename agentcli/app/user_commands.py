"""What the user can call by `/name` besides the built-in commands (own commands, those of the
project, skills, prompts of tool servers), and the resources of servers that a message mentions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.app.configuration.places import skill_folders, user_file
from agentcli.app.configuration.trust import is_trusted, trust_store
from agentcli.errors import ToolError, UsageError
from agentcli.events.actions import server_tool_name
from agentcli.knowledge.definitions import (
    OwnCommand,
    commands_of_project,
    commands_of_user,
    split_arguments,
)
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.knowledge.knowledge import read_skills
from agentcli.knowledge.skills import Skill, Skills
from agentcli.mcp.values import one_line
from agentcli.security.trust import COMMAND_FOLDER, fingerprint
from agentcli.settings import KnowledgeSettings
from agentcli.shell.output import kept_text
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.mcp.servers import ToolServers
    from agentcli.mcp.values import ServerPrompt


@dataclass(frozen=True)
class OwnCommands:
    """Commands and skills by name. `untrusted` are the names of commands of a project that is not
    trusted; `notices` tell the user what was left out."""

    commands: Mapping[str, OwnCommand] = field(default_factory=dict)
    skills: Skills = field(default_factory=Skills)
    untrusted: Collection[str] = ()
    notices: tuple[str, ...] = ()

    def names(self) -> Iterator[str]:
        yield from self.commands
        yield from (skill.name for skill in self.callable_skills())

    def skill(self, name: str) -> Skill | None:
        """Return the skill that `/name` calls."""
        return next(
            (s for s in self.callable_skills() if s.name.casefold() == name.casefold()), None
        )

    def callable_skills(self) -> Iterator[Skill]:
        return (skill for skill in self.skills.found if skill.kind != "repo")


def own_commands(
    environ: Mapping[str, str],
    workspace: Path,
    settings: KnowledgeSettings,
    built_in: Collection[str],
) -> OwnCommands:
    """Return the commands as they are now. A command can't replace one that is `built_in`, nor a
    project's one of the user's. Raises ConfigError if it can't be determined what is trusted."""
    folder = user_file(environ).parent
    notices: list[str] = []
    found = fingerprint(workspace)
    contents = found.contents.items()
    files = {name: data for name, data in contents if str(Path(name).parent) == COMMAND_FOLDER}
    trusted = bool(files) and trust_store(environ).state_of(found).trusted
    commands: dict[str, OwnCommand] = {}
    for command in (
        *commands_of_user(folder / "commands", notices),
        *commands_of_project(files if trusted else {}, notices),
    ):
        if command.name in built_in:
            notices.append(f"{command.shown} is left out: /{command.name} is built in")
        elif command.name in commands:
            before = commands[command.name].shown
            notices.append(f"{command.shown} is left out: /{command.name} is already {before}")
        else:
            commands[command.name] = command
    untrusted = () if trusted else tuple(Path(name).stem for name in files)
    folders = skill_folders(settings, environ)
    skills = read_skills(workspace, settings, folders, lambda place: is_trusted(environ, place))
    return OwnCommands(commands, skills, untrusted, tuple(notices))


_MENTION = re.compile(r"(?<!\S)@([A-Za-z0-9_-]+):(\S+)")
_ARGUMENT = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)


def with_resources(
    servers: ToolServers, context: ToolContext, text: str, typed: str
) -> tuple[str, tuple[str, ...]]:
    """Return `text` followed by each resource that is mentioned as @server:uri in what was `typed`,
    and the resources' images. Raises UsageError if a server does not provide one."""
    images: list[str] = []
    for name, uri in dict.fromkeys(_MENTION.findall(typed)):
        if not servers.has(name):
            continue
        try:
            answer = servers.read_resource(name, uri)
        except ToolError as error:
            raise UsageError(f"@{name}:{uri} can't be read: {error.message}") from error
        kept = kept_text(answer.text, context.outputs, f"{name}-{{}}.txt", context.max_output_chars)
        text += f"\n\n{wrap_in_tag('tool_result', kept.text, server=name, resource=uri)}"
        images += answer.images
    return text, tuple(images)


def resources(servers: ToolServers) -> Iterator[tuple[str, str]]:
    """Yield the mention of each resource that servers list, with a description."""
    for plan, features in servers.features():
        for resource in features.resources:
            if resource.uri.isprintable() and " " not in resource.uri:
                told = one_line(resource.description or resource.name)
                yield f"@{plan.name}:{resource.uri}", told


def prompts(servers: ToolServers) -> Iterator[tuple[str, str, ServerPrompt]]:
    """Yield each prompt with the name that the user calls it by and the name of its server."""
    for plan, features in servers.features():
        for prompt in features.prompts:
            yield server_tool_name(plan.name, prompt.name), plan.name, prompt


def prompt_text(servers: ToolServers, called: str, argument: str) -> str | None:
    """Return what the prompt `called` says with these arguments, marked as words of its server;
    None if there is no such prompt. Raises UsageError."""
    for name, server, prompt in prompts(servers):
        if name == called:
            try:
                answer = servers.prompt(server, prompt.name, _arguments(called, prompt, argument))
            except ToolError as error:
                raise UsageError(error.message) from error
            return f"[/{called}, a prompt of the tool server {server}:]\n{answer.text}"
    return None


def takes(prompt: ServerPrompt) -> str:
    return " ".join(name if must else f"[{name}]" for name, must in prompt.arguments)


def _arguments(called: str, prompt: ServerPrompt, given: str) -> dict[str, str]:
    """Assign words to arguments in order, or by name=value; the last argument takes the rest.
    Raises UsageError if one is missing."""
    names = [name for name, _ in prompt.arguments]
    found: dict[str, str] = {}
    words = split_arguments(given)
    while words:
        named = _ARGUMENT.fullmatch(words[0])
        if named and named[1] in names:
            found[named[1]] = named[2]
            words = words[1:]
            continue
        free: Sequence[str] = [name for name in names if name not in found]
        if not free:
            raise UsageError(f"/{called} takes {takes(prompt) or 'nothing'} after its name")
        found[free[0]] = " ".join(words) if len(free) == 1 else words[0]
        words = [] if len(free) == 1 else words[1:]
    if missing := [name for name, must in prompt.arguments if must and name not in found]:
        raise UsageError(f"/{called} needs {', '.join(missing)}", hint=f"/{called} {takes(prompt)}")
    return found
