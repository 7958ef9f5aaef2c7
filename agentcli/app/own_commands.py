"""What the user can call by `/name` besides the built-in commands: their own commands, those of the
project, and skills."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.app.configuration.places import skill_folders, user_file
from agentcli.app.configuration.trust import is_trusted, trust_store
from agentcli.knowledge.definitions import OwnCommand, commands_of_project, commands_of_user
from agentcli.knowledge.knowledge import read_skills
from agentcli.knowledge.skills import Skill, Skills
from agentcli.security.trust import COMMAND_FOLDER, fingerprint
from agentcli.settings import KnowledgeSettings


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
