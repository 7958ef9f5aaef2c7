"""Where the user keeps sessions, which must be known before there is a workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentcli.app.configuration.places import MANAGED_FILE, user_file
from agentcli.errors import ConfigError
from agentcli.sessions import FILES, set_store_selector
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ


def use_configured_store(flags: Mapping[str, Any] | None = None) -> None:
    """Use the store in the settings from now on, with `flags` by dotted key on top. The settings
    are read when a session is first asked for, which raises ConfigError if they can't be. They
    apply to sessions in the user's home; sessions made elsewhere for a moment are files."""

    def choose(home: Path) -> str:
        environ = user_environ()
        return configured_store(environ, flags or {}) if home == state_home(environ) else FILES

    set_store_selector(choose)


def configured_store(environ: Mapping[str, str], flags: Mapping[str, Any]) -> str:
    """Return `files` or the URL of a database, according to the settings; projects have no say in
    it. Raises ConfigError if the settings can't be read."""
    from agentcli.app.configuration.config import ENVIRONMENT_KEYS, STORE, read_layer

    layers = (
        lambda: read_layer(MANAGED_FILE),
        lambda: flags,
        lambda: {key: environ.get(variable) for variable, key in ENVIRONMENT_KEYS.items()},
        lambda: read_layer(user_file(environ)),
    )
    for layer in layers:
        if value := layer().get(STORE):
            if not isinstance(value, str):
                raise ConfigError(f"{STORE} must be text", hint="files, or the URL of a database")
            return value
    return FILES


def without_password(store: str) -> str:
    """Return the store's URL in a form that may be shown."""
    shown = re.sub(r"(://[^/?#]*?):[^/?#]*@", r"\1:***@", store)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", shown)
