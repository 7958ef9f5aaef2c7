"""Where the user keeps sessions, which must be known before there is a workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentcli.app.configuration.config import (
    ENVIRONMENT_KEYS,
    MANAGED_FILE,
    STORE,
    read_layer,
    user_file,
)
from agentcli.errors import ConfigError
from agentcli.sessions.store_selection import FILES


def configured_store(environ: Mapping[str, str], flags: Mapping[str, Any]) -> str:
    """Return `files` or the URL of a database, according to the settings; projects have no say in
    it. Raises ConfigError if the settings can't be read."""
    shell = {key: environ.get(variable) for variable, key in ENVIRONMENT_KEYS.items()}
    layers = (
        lambda: read_layer(MANAGED_FILE),
        lambda: flags,
        lambda: shell,
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
