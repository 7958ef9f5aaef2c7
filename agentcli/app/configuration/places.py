"""Where the agent's settings are, and what the user keeps beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.errors import ConfigError
from agentcli.system.homes import expanded, has_home, xdg_folder

if TYPE_CHECKING:
    from agentcli.settings import KnowledgeSettings

MANAGED_FILE = Path("/etc/agent/config.toml")
PROJECT_FILE = Path(".agent/config.toml")


def user_file(environ: Mapping[str, str]) -> Path:
    """Return `$AGENT_CONFIG`, else `$XDG_CONFIG_HOME/agent/config.toml`."""
    if chosen := environ.get("AGENT_CONFIG"):
        return expanded(chosen)
    return xdg_folder(environ, "XDG_CONFIG_HOME", "~/.config") / "agent" / "config.toml"


def rules_file(environ: Mapping[str, str]) -> Path:
    """Return the file of rules for what the user always allows."""
    return user_file(environ).with_name("rules")


def keys_file(environ: Mapping[str, str]) -> Path:
    """Return the file of keys that the user gave to `agent setup`."""
    return user_file(environ).with_name("keys.toml")


def user_skills(environ: Mapping[str, str]) -> Path:
    """Return the folder of skills for this agent alone."""
    return user_file(environ).absolute().with_name("skills")


def skill_folders(settings: KnowledgeSettings, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of the user's own skills, including those for other agents. The first is
    the one beside the settings, to which `agent skills add` adds. Folders that are the same under
    another name count once; without a home, those in ~ are left out. Raises ConfigError for the
    home of an unknown user."""
    named = [f for f in settings.skill_folders if has_home() or not f.startswith("~/")]
    places = [user_skills(environ), *map(expanded, named)]
    return list({place.resolve(): place for place in reversed(places)}.values())[::-1]


def resolve_workspace(folder: str | None) -> Path:
    """Return the folder to work in, absolute. Raises ConfigError if there is no such folder."""
    try:
        workspace = Path(folder or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"there is no folder {folder or 'to work in'}: {reason}", hint="see -C/--cd"
        ) from error
    if not workspace.is_dir():
        raise ConfigError(f"{workspace} is not a folder", hint="see -C/--cd")
    return workspace
