"""Where the user's own skills are, including those for other agents that they use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentcli.app.configuration.config import user_file
from agentcli.settings import KnowledgeSettings
from agentcli.system.homes import expanded, has_home

FOLDER = "skills"


def skill_folders(settings: KnowledgeSettings, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of skills. The first is the one beside the settings, to which `agent
    skills add` adds. Folders that are the same under another name count once; without a home, those
    in ~ are left out. Raises ConfigError for the home of an unknown user."""
    named = [f for f in settings.skill_folders if has_home() or not f.startswith("~/")]
    places = [user_skills(environ), *map(expanded, named)]
    return list({place.resolve(): place for place in reversed(places)}.values())[::-1]


def user_skills(environ: Mapping[str, str]) -> Path:
    """Return the folder of skills for this agent alone."""
    return user_file(environ).absolute().with_name(FOLDER)
