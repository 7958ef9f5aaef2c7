"""Where the person's own skills are, those of other agents that they use among them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentcli.app.config import user_file
from agentcli.settings import KnowledgeSettings
from agentcli.system.homes import expanded, has_home

FOLDER = "skills"


def skill_folders(settings: KnowledgeSettings, environ: Mapping[str, str]) -> list[Path]:
    """The one beside the settings first, which `agent skills add` adds to. Those that are the same
    by another name count once. Whoever has no home has none there. Raises ConfigError for the home
    of a user that there is none of."""
    named = [f for f in settings.skill_folders if has_home() or not f.startswith("~/")]
    places = [user_skills(environ), *map(expanded, named)]
    return list({place.resolve(): place for place in reversed(places)}.values())[::-1]


def user_skills(environ: Mapping[str, str]) -> Path:
    """Where skills for this agent alone are."""
    return user_file(environ).absolute().with_name(FOLDER)
