"""The user's home folder, and the agent's own folders for state and caches. In containers, programs
often run as users without a home."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agentcli.errors import ConfigError

_HINT = "set HOME, or both AGENT_HOME and AGENT_CONFIG"


def has_home() -> bool:
    """Return whether the user has a home folder."""
    return os.path.expanduser("~") != "~"  # noqa: PTH111 - Path's raises


def user_home(environ: Mapping[str, str]) -> Path:
    """Return the user's resolved home folder, or `/` if they have none."""
    named = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path's raises
    return Path(named if named != "~" else "/").resolve()


def expanded(path: str) -> Path:
    """Return `path` with `~` or `~user` expanded. Raises ConfigError if there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        user = path[1:].partition("/")[0]
        why = f"there is no user {user}" if user else "no home folder is known"
        raise ConfigError(f"{path}: {why}", hint="" if user else _HINT) from error


def xdg_folder(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    """Return the folder that `variable` names, or else the `usual` one, with `~` expanded. A
    relative path counts as none, as https://specifications.freedesktop.org/basedir-spec/ says.
    Raises ConfigError if there is no such home."""
    named = environ.get(variable, "")
    return expanded(named if named.startswith(("/", "~")) else usual)


def state_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of sessions and log: `$AGENT_HOME`, else `$XDG_STATE_HOME/agent`."""
    if chosen := environ.get("AGENT_HOME"):
        return expanded(chosen).absolute()
    return xdg_folder(environ, "XDG_STATE_HOME", "~/.local/state") / "agent"


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the folder for large data that can be made again: `$XDG_CACHE_HOME/agent`."""
    try:
        return xdg_folder(environ, "XDG_CACHE_HOME", "~/.cache") / "agent"
    except ConfigError:
        return Path(tempfile.gettempdir()) / f"agent-{os.getuid()}"
