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


def state_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of sessions and log: `$AGENT_HOME`, else `$XDG_STATE_HOME/agent`."""
    if chosen := environ.get("AGENT_HOME"):
        return expanded(chosen).absolute()
    base = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return expanded(base).absolute() / "agent"


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the folder for large data that can be made again: `$XDG_CACHE_HOME/agent`."""
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return expanded(base).absolute() / "agent"
    except ConfigError:
        return Path(tempfile.gettempdir()) / f"agent-{os.getuid()}"
