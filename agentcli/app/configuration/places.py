"""Where settings are, and what is kept beside them: the keys of providers."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.errors import ConfigError
from agentcli.system.homes import expanded, has_home, xdg_folder
from agentcli.workspace.private import locked, read_regular, replace_durably

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


_MAX_BYTES = 100_000
_FOR_OTHERS = 0o077
_HEAD = "# Keys of model providers, kept by `agent setup`. Nobody else may read this file.\n"


@dataclass(frozen=True)
class StoredKeys:
    """`values` are keys by their environment variable; `fault` says why none could be read."""

    values: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


def stored_keys(environ: Mapping[str, str]) -> StoredKeys:
    from agentcli.workspace.text import load_toml, toml_text

    path = keys_file(environ)
    try:
        text, facts = read_regular(path, _MAX_BYTES, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return StoredKeys()
    except OSError as error:
        return StoredKeys(fault=f"{path} can't be read: {error.strerror}")
    if facts.st_uid not in (os.geteuid(), 0):
        return StoredKeys(fault=f"{path} is not used: it belongs to another user")
    if stat.S_IMODE(facts.st_mode) & _FOR_OTHERS:
        return StoredKeys(fault=f"{path} is not used: others may read it; chmod 600 {path}")
    try:
        found = load_toml(toml_text(text))
    except (ValueError, RecursionError):
        # The parser's message could contain part of a key.
        return StoredKeys(fault=f"{path} is not used: it is not valid TOML")
    return StoredKeys({name: key for name, key in found.items() if isinstance(key, str)})


def require_keepable(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the stored keys. Raises ConfigError if no further key can be stored with them."""
    kept = stored_keys(environ)
    if kept.fault:
        raise ConfigError(kept.fault, hint="or delete it: agent setup asks for keys again")
    return kept.values


def store_key(environ: Mapping[str, str], variable: str, key: str) -> Path:
    """Store `key`, for use when `variable` is not set. Raises ConfigError."""
    path = Path(os.path.realpath(keys_file(environ)))
    try:
        with locked(path):
            keys = {**require_keepable(environ), variable: key}
            # A JSON string is also a TOML string.
            lines = (f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
            replace_durably(path, (_HEAD + "".join(lines)).encode())
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}") from error
    return path
