"""Options and helpers that the commands about skills share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from agentcli.app.configuration.places import skill_folders, user_skills
from agentcli.app.configuration.trust import is_trusted, load_with_trust, require_outside_session
from agentcli.cli.options import option
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError
from agentcli.knowledge.instructions import repository_root
from agentcli.knowledge.knowledge import read_skills
from agentcli.knowledge.skills import Skill, Skills
from agentcli.system.programs import user_environ
from agentcli.workspace.names import PROJECT_SKILL_FOLDERS

ProjectFlag = Annotated[
    bool, option("--project", "In .agents/skills of this project, not in your own.")
]


def known_skills() -> Skills:
    """Return the skills that a session in this folder knows. Raises ConfigError."""
    environ, workspace = user_environ(), here()
    settings = load_with_trust(environ, workspace).settings.values.knowledge
    folders = skill_folders(settings, environ)
    return read_skills(workspace, settings, folders, lambda place: is_trusted(environ, place))


def target_folder(*, project: bool) -> Path:
    """Return the folder in which skills are added and removed. Raises UsageError inside a session:
    only the user decides what sessions are told."""
    require_outside_session(user_environ(), "no session may add or remove skills")
    if project:
        root = repository_root(here())
        folder = root / PROJECT_SKILL_FOLDERS[0]
        if not folder.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{folder} leads out of the project")
        return folder
    return user_skills(user_environ())


def facts(skill: Skill) -> dict[str, Any]:
    """Return the facts about a skill for --json."""
    return {
        "name": skill.name,
        "kind": skill.kind,
        "description": skill.description,
        "version": skill.version,
        "triggers": list(skill.triggers),
        "inputs": dict(skill.inputs),
        "from": "project" if skill.of_project else "user",
        "path": str(skill.path),
        "files": skill.files,
        "scripts": skill.scripts,
    }


def use_of(skill: Skill) -> str:
    """Say when the model gets the skill."""
    match skill.kind:
        case "repo":
            return "always told"
        case "knowledge":
            return f"told when you say {', '.join(skill.triggers)}"
        case "task":
            return "called by name"
    return "read when it fits, or called by name"
