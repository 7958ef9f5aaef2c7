"""Selects the store that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentcli.sessions.store_selection import FILES, set_store_selector
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ


def use_configured_store(flags: Mapping[str, Any] | None = None) -> None:
    """Use the store in the settings from now on, with `flags` by dotted key on top. The settings
    are read when a session is first asked for, which raises ConfigError if they can't be. They
    apply to sessions in the user's home; sessions made elsewhere for a moment are files."""

    def choose(home: Path) -> str:
        environ = user_environ()
        if home != state_home(environ):
            return FILES
        from agentcli.app.configuration.session_store import configured_store

        return configured_store(environ, flags or {})

    set_store_selector(choose)
